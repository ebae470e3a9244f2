"""Sharding against the plain copy plus sha256 of the same bytes, interleaved in the same run: a ratio, not a time."""

import hashlib
import json
import shutil
import statistics
import time
from pathlib import Path

import pytest

from checkpoints import SMOLLM2, names_for, spec_for
from dayzero.adapters.transfer.weights import WeightTransfer
from dayzero.domain.planning import Degrees
from dayzero.domain.tensors import CheckpointIndex
from dayzero.stages.headers.reading import header_length, parse_header
from dayzero.stages.layout.laying import lay_out

ROUNDS = 3
WIDE = {**SMOLLM2, "hidden_size": 1152, "intermediate_size": 3072, "vocab_size": 30_000, "num_hidden_layers": 24}


def write_checkpoint(folder: Path) -> CheckpointIndex:
    """A BF16 checkpoint of the wide configuration, some 600 MB, its bytes from a counter."""
    from math import prod

    rows, at = {}, 0
    for name, shape in names_for(WIDE):
        rows[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + 2 * prod(shape)]}
        at += 2 * prod(shape)
    header = json.dumps(rows).encode()
    path = folder / "model.safetensors"
    block = bytes(range(256)) * 4096
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for begin in range(0, at, len(block)):
            file.write(block[: at - begin])
    size = path.stat().st_size
    with path.open("rb") as file:
        length = header_length(file.read(8), path.name, size)
        return CheckpointIndex(tuple(sorted(parse_header(path.name, size, file.read(length)), key=lambda row: row.name)))


def copy_and_hash(source: Path, into: Path) -> None:
    """What a download script does: copy, then hash what was written."""
    shutil.copyfile(source, into)
    with into.open("rb") as file:
        hashlib.file_digest(file, "sha256")


def test_sharding_against_copy_and_hash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = write_checkpoint(tmp_path)
    layout = lay_out("bench", spec_for(WIDE), index, Degrees(tp=3))
    ours, plain = [], []
    for round_ in range(ROUNDS):
        started = time.perf_counter()
        copy_and_hash(tmp_path / "model.safetensors", tmp_path / f"copy-{round_}")
        plain.append(time.perf_counter() - started)
        started = time.perf_counter()
        manifest = WeightTransfer().shard(tmp_path, layout, tmp_path / f"shards-{round_}", None)
        ours.append(time.perf_counter() - started)
        assert all(file.digest for file in manifest.files)
        shutil.rmtree(tmp_path / f"shards-{round_}")
        (tmp_path / f"copy-{round_}").unlink()
    ratio = statistics.median(ours) / statistics.median(plain)
    with capsys.disabled():
        print(f"\nsharding {index.weight_bytes:,} bytes to tp3: {statistics.median(ours):.2f} s; copy and sha256: ", end="")
        print(f"{statistics.median(plain):.2f} s; ratio {ratio:.2f} (ranks replicate embeddings, so they write more)")
