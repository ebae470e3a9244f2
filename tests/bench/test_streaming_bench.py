"""Shards over HTTP on loopback against the slower of what they are made of: curl of the same files from nginx, and the local
sharding of files that are there. Interleaved, medians, ratios; own time from the first request to the commit.

DAYZERO_BENCH_BYTES sets how much one round moves (default 512 MiB), DAYZERO_BENCH_ROUNDS how often (default 5).
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench_hubs import Mimic, OurHub
from checkpoints import SMOLLM2, names_for
from hub_models import noise
from nginx import Nginx, is_installed

ROUNDS = int(os.environ.get("DAYZERO_BENCH_ROUNDS", "5"))
TOTAL_BYTES = int(os.environ.get("DAYZERO_BENCH_BYTES", str(512 << 20)))
FILES = 8
REPO = "acme/wide"
LAYERS = max(4, TOTAL_BYTES // (37 << 20))
WIDE = {
    **SMOLLM2, "hidden_size": 1024, "intermediate_size": 4096, "vocab_size": 32_000, "num_hidden_layers": LAYERS,
    "num_attention_heads": 16, "num_key_value_heads": 16,
}  # fmt: skip

pytestmark = pytest.mark.skipif(not is_installed() or shutil.which("curl") is None, reason="needs nginx and curl")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dense BF16 checkpoint of eight files, with an index."""
    from math import prod

    folder = tmp_path_factory.mktemp("served") / "models"
    home = folder / REPO
    home.mkdir(parents=True)
    shapes = names_for(WIDE)
    weight_map, block = {}, noise(1 << 20, b"bench")
    for number in range(FILES):
        file = f"model-{number + 1:05d}-of-{FILES:05d}.safetensors"
        rows, at = {}, 0
        for name, shape in shapes[number * len(shapes) // FILES : (number + 1) * len(shapes) // FILES]:
            rows[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + 2 * prod(shape)]}
            at += 2 * prod(shape)
            weight_map[name] = file
        header = json.dumps(rows).encode()
        with (home / file).open("wb") as stream:
            stream.write(len(header).to_bytes(8, "little") + header)
            for begin in range(0, at, len(block)):
                stream.write(block[: at - begin])
    (home / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    (home / "config.json").write_text(json.dumps(WIDE))
    return folder


RUN = """
import json, resource, sys, time
from pathlib import Path
from checkpoints import spec_for
from dayzero.adapters.hubs.choose import parse_model_ref, hub_for, resolve
from dayzero.adapters.transfer.weights import WeightTransfer
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import Integrity
from dayzero.settings import Settings
from dayzero.stages.layout.laying import lay_out
from dayzero.stages.transfer.slices import slices_of
from dayzero.steps.headers import checkpoint_index

mode, where, out, ranks = sys.argv[1:5]
settings = Settings(hf_endpoint=where) if mode != "local" else Settings()
ref = parse_model_ref("hf:acme/wide" if mode != "local" else where)
release, hub = resolve(ref, settings), hub_for(ref, settings)
release_of = hub_for(release, settings)
index = checkpoint_index(release_of, release)
config = json.loads(release_of.read_small(release, "config.json", 1 << 20))
asked = tuple(map(int, ranks.split(","))) if ranks else None
layout = lay_out("bench", spec_for(config, index), index, Degrees(tp=4), ranks=asked)
slices = slices_of(layout, index, asked) if asked else None
started = time.perf_counter()
transfer = WeightTransfer(connections=4)
if mode == "local":
    stated = {file.path: file.sha256 for file in release.files if file.sha256}
    transfer.shard(Path(where), layout, Path(out), None, stated=stated)
else:
    transfer.stream(release_of, release, index, layout, Path(out), None, slices=slices)
took = time.perf_counter() - started
shard_bytes = sum(file.weight_bytes for file in layout.files)
print(json.dumps({"took_s": took, "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    "shard_bytes": shard_bytes, "read_bytes": slices.read_bytes if slices else 0,
    "requests_per_gib": slices.requests_per_gib if slices else 0}))
"""


def run(mode: str, where: str, out: Path, ranks: str = "") -> dict[str, float]:
    """One transfer in a process of its own; what it says of itself."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", RUN, mode, where, str(out), ranks]
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    shutil.rmtree(out)
    found: dict[str, float] = json.loads(said.splitlines()[-1])
    return found


def curl(url: str, into: Path) -> float:
    """Fetch all files to the same disk, one after the other, and sync; the seconds that it took."""
    into.mkdir()
    outs = [part for number in range(1, FILES + 1) for part in (
        "-o", str(into / f"{number}"), f"{url}/{REPO}/model-{number:05d}-of-{FILES:05d}.safetensors")]  # fmt: skip
    started = time.perf_counter()
    subprocess.run(["curl", "-sSf", *outs], check=True)
    os.sync()
    took = time.perf_counter() - started
    shutil.rmtree(into)
    return took


def test_one_pass_over_http_against_its_parts(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times: dict[str, list[float]] = {"curl": [], "local": [], "from hub serve": [], "from nginx": []}
    peak = 0.0
    with Nginx(models) as nginx, OurHub(models) as hub, Mimic(nginx.url, models) as mimic:
        ways: dict[str, Callable[[], dict[str, float]]] = {
            "local": lambda: run("local", str(models / REPO), tmp_path / "out"),
            "from hub serve": lambda: run("hub", hub.url, tmp_path / "out"),
            "from nginx": lambda: run("hub", mimic.url, tmp_path / "out"),
        }
        for _ in range(ROUNDS):
            times["curl"].append(curl(nginx.url, tmp_path / "curled"))
            for name, way in ways.items():
                said = way()
                times[name].append(said["took_s"])
                peak = max(peak, said["peak_bytes"])
    median = {name: statistics.median(each) for name, each in times.items()}
    slower = max(median["curl"], median["local"])
    with capsys.disabled():
        print(f"\n{TOTAL_BYTES:,} bytes to tp4 with sha256, {ROUNDS} interleaved rounds: ", end="")
        print(", ".join(f"{name} {seconds:.2f} s" for name, seconds in median.items()))
        for name in ("from hub serve", "from nginx"):
            print(f"{name}: {median[name] / slower:.2f} x the slower of curl and local sharding")
        print(f"peak resident {peak / 2**20:.0f} MiB (the whole process)")


def test_what_a_node_receives(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with OurHub(models) as hub, capsys.disabled():
        print("\nranks of tp4 | shard bytes | received | over-read | requests a GiB | s")
        for ranks in ("0,1,2,3", "0,1", "0"):
            said = run("hub", hub.url, tmp_path / "out", ranks)
            over = said["read_bytes"] / said["shard_bytes"] - 1
            print(f"{ranks} | {said['shard_bytes']:,} | {said['read_bytes']:,} | {over:.1%} | ", end="")
            print(f"{said['requests_per_gib']:.0f} | {said['took_s']:.2f}")
            if ranks == "0,1,2,3":
                assert said["read_bytes"] <= 1.02 * said["shard_bytes"]
