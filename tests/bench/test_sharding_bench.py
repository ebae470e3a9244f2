"""Sharding against `cp` and `sync` of the same bytes on the same disk, interleaved in one run: ratios, not times.

DAYZERO_BENCH_GIB: bytes of the checkpoints (8), DAYZERO_BENCH_ROUNDS: rounds (5), DAYZERO_BENCH_DIR: the disk (that of
temporary files).
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dayzero.adapters.transfer.sharding import write_shards
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import Integrity, ShardManifest
from dayzero.domain.tensors import TensorHeader
from dayzero.stages.headers.reading import LENGTH_BYTES, header_length, index_of, parse_header
from wide_checkpoints import Config, Written, dense, experts, weight_bytes, write_checkpoint

GIB = 1 << 30
FILES = 8
SIZE_GIB = float(os.environ.get("DAYZERO_BENCH_GIB", "8"))
ROUNDS = int(os.environ.get("DAYZERO_BENCH_ROUNDS", "5"))
CASES: dict[str, tuple[Callable[[int], Config], Degrees]] = {
    "dense to tp4": (dense, Degrees(tp=4)),
    "experts to tp2 x ep2": (experts, Degrees(tp=2, dp=2, ep=2, etp=2)),
}
GOAL = 0.9
PEAK_MIB = 200


@pytest.fixture
def disk() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=os.environ.get("DAYZERO_BENCH_DIR")) as folder:
        yield Path(folder)


def sized(config: Callable[[int], Config], gib: float) -> Config:
    """So many layers that the weights have at least this size."""
    one, two = weight_bytes(config(1)), weight_bytes(config(2))
    return config(max(1, -int(-(gib * GIB - one) // (two - one)) + 1))


@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("case", CASES)
def test_sharding_against_copying(case: str, disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, degrees = CASES[case]
    written = write_checkpoint(disk / "model", sized(config, SIZE_GIB), FILES)
    total = sum((written.folder / file).stat().st_size for file in written.files)
    rates: dict[str, list[float]] = {}

    def copy(integrity: Integrity) -> None:
        took_s = copied_s(written, disk / "copy", integrity is Integrity.SHA256)
        rates.setdefault(f"cp {integrity.value}", []).append(total / took_s)

    def shard(integrity: Integrity) -> None:
        output_bytes, took_s, _ = sharded(written, degrees, disk / "shards", integrity)
        rates.setdefault(f"shard {integrity.value}", []).append(output_bytes / took_s)

    for at in range(ROUNDS):
        for integrity in Integrity:
            # What a disk still does for the one must not always fall to the same other.
            for run in (copy, shard) if at % 2 == 0 else (shard, copy):
                run(integrity)
    with capsys.disabled():
        print(f"\n{case}: {total / GIB:.2f} GiB in {FILES} files, medians of {ROUNDS}")
        for integrity in Integrity:
            ours, theirs = (statistics.median(rates[f"{who} {integrity.value}"]) for who in ("shard", "cp"))
            beside = " with sha256sum beside" if integrity is Integrity.SHA256 else ""
            print(
                f"  integrity {integrity.value}: {ours / GIB:.3f} GiB/s; cp and sync{beside}: {theirs / GIB:.3f} GiB/s; ",
                end="",
            )
            print(f"ratio {ours / theirs:.2f} (goal {GOAL})")


@pytest.mark.timeout(3600)
def test_peak_memory_whatever_the_size(disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    peaks = {}
    for gib in sorted({SIZE_GIB / 8, SIZE_GIB / 2, SIZE_GIB * 1.5}):
        written = write_checkpoint(disk / "model", sized(dense, gib), FILES)
        _, _, peaks[gib] = sharded(written, Degrees(tp=4), disk / "shards", Integrity.SHA256)
        shutil.rmtree(written.folder)
    with capsys.disabled():
        print("\npeak resident, sha256: " + ", ".join(f"{gib:g} GiB: {peak:.0f} MiB" for gib, peak in peaks.items()))
    assert max(peaks.values()) <= PEAK_MIB


def copied_s(written: Written, into: Path, hashed: bool) -> float:
    """Seconds of `cp` and `sync` of the copies, and of `sha256sum` of the sources beside it."""
    into.mkdir()
    sources = [str(written.folder / file) for file in written.files]
    began_s = time.perf_counter()
    beside = subprocess.Popen(["sha256sum", *sources], stdout=subprocess.DEVNULL) if hashed else None
    subprocess.run(["cp", *sources, str(into)], check=True)
    subprocess.run(["sync", *(str(into / file) for file in written.files)], check=True)
    if beside is not None:
        assert beside.wait() == 0
    took_s = time.perf_counter() - began_s
    shutil.rmtree(into)
    return took_s


def sharded(written: Written, degrees: Degrees, into: Path, integrity: Integrity) -> tuple[int, float, float]:
    """(bytes written, seconds from the first read to the commit, peak resident MiB) of a process of its own."""
    request = json.dumps(
        [str(written.folder), str(into), written.config, [degrees.tp, degrees.dp, degrees.ep, degrees.etp], integrity]
    )
    path = os.pathsep.join(one for one in sys.path if one)
    answer = subprocess.run([sys.executable, __file__], input=request, stdout=subprocess.PIPE, text=True, check=True,
                            env={**os.environ, "PYTHONPATH": path})  # fmt: skip
    output_bytes, took_s, peak_mib = json.loads(answer.stdout)
    shutil.rmtree(into)
    return output_bytes, took_s, peak_mib


def child() -> None:
    folder, into, config, (tp, dp, ep, etp), integrity = json.loads(sys.stdin.read())
    headers = {path.name: headers_of(path) for path in sorted(Path(folder).glob("*.safetensors"))}
    written = Written(Path(folder), config, index_of(headers, None), tuple(sorted(headers)))
    layout = written.layout(Degrees(tp=tp, dp=dp, ep=ep, etp=etp))
    began_s = time.perf_counter()
    manifest: ShardManifest = write_shards(written.folder, layout, Path(into), None, integrity=Integrity(integrity))
    took_s = time.perf_counter() - began_s
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(json.dumps([sum(file.size_bytes for file in manifest.files), took_s, int(status["VmHWM"].split()[0]) / 1024]))


def headers_of(path: Path) -> tuple[TensorHeader, ...]:
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = header_length(stream.read(LENGTH_BYTES), path.name, size)
        return parse_header(path.name, size, stream.read(length))


if __name__ == "__main__":
    child()
