"""The search: seconds of CPU and candidates for large models on every platform; and estimates beside a peer's.

The peer runs in an environment of its own: DAYZERO_AICONFIGURATOR names a Python that has aiconfigurator installed.
"""

import json
import os
import resource
import subprocess
import time
from pathlib import Path

import pytest
from peer_estimates import HELD_OUT, SYSTEMS, compare, structure, summary

from dayzero.adapters.profiles.load import load_profiles
from dayzero.domain.planning import Objective, Workload
from dayzero.stages.planning.choosing import plan_for

LARGE = ("moonshotai/Kimi-K3", "deepseek-ai/DeepSeek-V4-Pro", "moonshotai/Kimi-K2-Instruct", "deepseek-ai/DeepSeek-V3",
         "Qwen/Qwen3-235B-A22B", "zai-org/GLM-5", "meta-llama/Meta-Llama-3.1-405B")  # fmt: skip
SIZES = (8, 64, 1024)
PEER = os.environ.get("DAYZERO_AICONFIGURATOR")
needs_peer = pytest.mark.skipif(PEER is None, reason="DAYZERO_AICONFIGURATOR names no Python that has aiconfigurator")


def run_peer(*arguments: str) -> list[dict]:
    """Lines that the peer prints."""
    script = Path(__file__).with_name("peer_aiconfigurator.py")
    done = subprocess.run([str(PEER), str(script), *arguments], capture_output=True, text=True, check=True, timeout=3600)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def known_platforms():
    """Platforms whose memory and bandwidth somebody states."""
    return [one for one in load_profiles(None).values() if one.memory_bytes and one.memory_bandwidth_bytes_per_s]


def searched(model: str, profile, devices: int) -> tuple[float, int, int, bool]:
    """Seconds of CPU of one whole search (the least of three where it takes more than one: what else runs on a shared core only
    adds to it), candidates, plans that fit or rank behind, and whether one was found."""
    workload = Workload(context_tokens=5000, output_tokens=1000, concurrency=16 * devices, objective=Objective.THROUGHPUT,
                        cache_dtypes=("bfloat16", "fp8") if profile.slug in ("h200", "b200") else ())  # fmt: skip
    spec = structure(model)
    seconds = float("inf")
    for attempt in range(3):
        started = time.process_time()
        report = plan_for(spec, None, profile, workload, devices=devices, memory_limit_bytes=None)
        seconds = min(seconds, time.process_time() - started)
        if attempt == 0 and seconds < 1:
            break
    assert report.fitting + sum(family.count for family in report.families) == report.candidates
    return seconds, report.candidates, report.fitting, report.plan is not None


@pytest.mark.parametrize("model", LARGE)
def test_search_of_every_platform(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = {devices: [(*searched(model, profile, devices), profile.slug) for profile in known_platforms()] for devices in SIZES}
    for devices, found in rows.items():
        seconds, count, _, _, slug = max(found)
        median = sorted(row[0] for row in found)[len(found) // 2]
        planned = sum(row[3] for row in found)
        with capsys.disabled():
            print(
                f"\n| {model} | {devices} | {planned} of {len(found)} | {median:.2f} | {seconds:.2f} ({slug}) | {count:,} |",
                end="",
            )
    with capsys.disabled():
        print(f" peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB", end="")


@needs_peer
@pytest.mark.parametrize("system", SYSTEMS)
def test_estimates_beside_measured_kernels(system: str, capsys: pytest.CaptureFixture[str]) -> None:
    for (platform, model), (count, correlation, ratio, tpot) in summary(
        compare(run_peer("estimate", system, *HELD_OUT))
    ).items():
        with capsys.disabled():
            print(f"\n| {platform} | {model} | {count} | {correlation:.3f} | {ratio:.2f} | {tpot:.2f} |", end="")
        assert correlation >= 0.7
        assert 0.5 <= ratio <= 2


@needs_peer
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("model", HELD_OUT)
def test_search_beside_the_peers(system: str, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    (theirs,) = run_peer("search", system, "64", model)
    ours, count, _, _ = searched(model, load_profiles(None)[SYSTEMS[system]], 64)
    with capsys.disabled():
        print(f"\n| {model} | {system} | {ours:.2f} | {count} | {theirs['cpu_s']:.1f} | {theirs['cpu_s'] / ours:.0f} |", end="")
