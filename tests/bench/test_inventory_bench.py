"""Time and memory of `inspect` and `ops` on published architectures at full size, beside what else can size a model.

Each row is one process with its children: wall seconds, CPU seconds, peak resident MiB. Peers get the same configurations from
a hub of ours, before any weights; what they cannot answer is written down as they say it. DAYZERO_BENCH_MODELS names a few.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(3600)]
CONFIGS = Path(__file__).parents[1] / "golden" / "configs"
MODELS = os.environ.get("DAYZERO_BENCH_MODELS", "").split() or [
    "deepseek_v4_pro", "kimi_k2", "glm_5", "minimax_m3", "qwen3_5_122b", "gpt_oss_120b", "llama_4_maverick", "gemma_4_26b",
    "nemotron_h_56b", "jamba", "kimi_k3",
]  # fmt: skip
LIMIT_S = 600
MOST_KIB = 6 << 20
"""A peer that wants to allocate a whole layer for real is stopped here."""

FLOOR = "import torch, transformers; transformers.AutoModelForCausalLM"
"""What any answer from the modelling library costs at least."""


@dataclass(frozen=True)
class Cost:
    """What one command cost, and what it said."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    code: int
    out: str
    error: str

    def __str__(self) -> str:
        return f"{self.wall_s:.1f} s, {self.cpu_s:.1f} s CPU, {self.peak_mib:.0f} MiB"


def measured(command: list[str], folder: Path, **environment: str) -> Cost:
    """Run a command to its end; the figures are the whole process tree's."""
    out, error = folder / "out", folder / "error"
    started = time.perf_counter()
    limited = ["sh", "-c", f'ulimit -d {MOST_KIB}; exec timeout {LIMIT_S} "$@"', "bench", *command]
    variables = os.environ | {"DAYZERO_DATA_DIR": str(folder / "data")} | environment
    with out.open("wb") as sink, error.open("wb") as other:
        process = subprocess.Popen(limited, stdout=sink, stderr=other, stdin=subprocess.DEVNULL, cwd=folder, env=variables)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Cost(
        time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, process.returncode,
        out.read_text(errors="replace"), error.read_text(errors="replace"),
    )  # fmt: skip


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A hub that has every configuration as a repository without weights."""
    folder = tmp_path_factory.mktemp("hub") / "models"
    for name in MODELS:
        (folder / "published" / name).mkdir(parents=True)
        shutil.copy(CONFIGS / f"{name}.json", folder / "published" / name / "config.json")
    command = [sys.executable, "-m", "dayzero.cli.main", "hub", "serve", str(folder), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        text = ""
        while line := server.stdout.readline():
            text += line
            if "url" in text and text.rstrip().endswith("}"):
                break
        yield str(json.loads(text)["url"])
        server.terminate()


def last_line(cost: Cost) -> str:
    """What a peer that could not answer said last."""
    lines = [line.strip(" │╰─╯") for line in (cost.out + "\n" + cost.error).splitlines()]
    return next((line for line in reversed(lines) if line), "nothing")[:160]


@pytest.mark.parametrize("name", MODELS)
def test_inspect_and_ops_at_full_size(name: str, hub: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dayzero = [sys.executable, "-m", "dayzero.cli.main"]
    config = str(CONFIGS / f"{name}.json")
    bare = measured([*dayzero, "--help"], tmp_path)
    floor = measured([sys.executable, "-c", FLOOR], tmp_path)
    inspect = measured([*dayzero, "inspect", config, "--json"], tmp_path)
    ops = measured([*dayzero, "ops", config, "--json"], tmp_path)
    document = json.loads(ops.out)
    assert inspect.code == ops.code == 0 and document["kernels"]
    assert document["graph"] or name == "kimi_k3", document["findings"]
    peers = {}
    accelerate = shutil.which("accelerate", path=str(Path(sys.executable).parent)) or shutil.which("accelerate")
    if accelerate:
        command = [accelerate, "estimate-memory", f"published/{name}", "--library_name", "transformers"]
        peers["accelerate"] = measured(command, tmp_path, HF_ENDPOINT=hub, HF_HOME=str(tmp_path / "home"))
    hf_mem = shutil.which("hf-mem", path=str(Path(sys.executable).parent)) or shutil.which("hf-mem")
    if hf_mem:
        peers["hf-mem"] = measured([hf_mem, "--model-id", f"published/{name}"], tmp_path, HF_ENDPOINT=hub)
    uses, collectives = len(document["graph"]), len(document["collectives"])
    with capsys.disabled():
        print(f"\n{name}: start-up {bare}; the library's import alone {floor}; inspect {inspect}; ops {ops}; ", end="")
        print(f"{uses} uses, {collectives} collectives", end="")
        for peer, cost in peers.items():
            print(f"; {peer}: {cost if cost.code == 0 else 'no answer: ' + last_line(cost)}", end="")
