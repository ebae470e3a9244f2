"""Shards on a real disk: reassembled they are the original bytes; killed, hostile and full disks lose nothing."""

import hashlib
import json
import tempfile
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from architectures import MODELS, legal, spec_of, write_model
from checkpoints import DEEPSEEK, MIXTRAL, SMOLLM2, names_for, spec_for
from dayzero import disk
from dayzero.adapters.transfer.verifying import read_manifest
from dayzero.adapters.transfer.weights import WeightTransfer
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import ShardFile, ShardManifest
from dayzero.domain.tensors import DTYPE_BITS
from dayzero.errors import BadInputError, DependencyError, IntegrityError, UnavailableError
from dayzero.stages.headers.reading import LENGTH_BYTES, header_length, index_of, parse_header
from dayzero.stages.layout.laying import UncuttableError, lay_out
from dayzero.stages.layout.shares import rank_weight_bytes, weight_table

numpy = pytest.importorskip("numpy")
safetensors_numpy = pytest.importorskip("safetensors.numpy")
pytestmark = pytest.mark.torch


def write_checkpoint(folder: Path, config: dict, dtype: str = "float16"):
    """Two files of random values; returns the tensors by name and the index."""
    folder.mkdir(parents=True, exist_ok=True)
    random = numpy.random.default_rng(7)
    tensors = {name: random.standard_normal(shape).astype(dtype) for name, shape in names_for(config)}
    names = sorted(tensors)
    headers = {}
    for number, part in enumerate((names[::2], names[1::2]), start=1):
        file = f"model-{number:05d}-of-00002.safetensors"
        safetensors_numpy.save_file({name: tensors[name] for name in part}, folder / file)
        headers[file] = header_of(folder / file)
    return tensors, index_of(headers, None)


def header_of(path: Path):
    data = path.read_bytes()
    length = header_length(data[:LENGTH_BYTES], path.name, len(data))
    return parse_header(path.name, len(data), data[LENGTH_BYTES : LENGTH_BYTES + length])


def layout_for(folder: Path, config: dict, degrees: Degrees) -> tuple[dict, ShardManifest]:
    tensors, index = write_checkpoint(folder, config)
    return tensors, lay_out("content", spec_for(config), index, degrees)


@st.composite
def allowed(draw: st.DrawFn) -> tuple[str, Degrees, int]:
    name = draw(st.sampled_from(sorted(MODELS)))
    degrees, redundant = draw(st.sampled_from(legal(name, 12)))
    return name, degrees, redundant


@settings(max_examples=40, deadline=None)
@given(allowed())
def test_reassembled_shards_are_the_original_and_as_large_as_planned(case: tuple[str, Degrees, int]) -> None:
    name, degrees, redundant = case
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        index = write_model(name, home / "model")
        table = weight_table(spec_of(name), index)
        assert table is not None
        try:
            layout = lay_out("content", spec_of(name), index, degrees, redundant)
        except UncuttableError:
            return
        manifest = WeightTransfer().shard(home / "model", layout, home / "shards", None)
        planned = rank_weight_bytes(table, degrees, redundant)
        assert planned == tuple(manifest.rank_weight_bytes(rank) for rank in range(degrees.world))
        original = arrays_of(home / "model" / "model.safetensors")
        covered = {name: numpy.zeros(value.shape, bool) for name, value in original.items()}
        for file in manifest.files:
            path = home / "shards" / file.path
            assert path.stat().st_size == file.size_bytes
            loaded = arrays_of(path)
            assert file.digest == digest_of(path, file)
            assert sum(value.nbytes for value in loaded.values()) == planned[file.rank]
            assert set(loaded) == {tensor.name for tensor in file.tensors}
            for tensor in file.tensors:
                at = place_in(original[tensor.name], tensor)
                mine = loaded[tensor.name].reshape(-1)
                real = original[tensor.name][at].reshape(-1)
                assert mine[: real.size].tobytes() == real.tobytes(), tensor.name
                assert mine.size - real.size == tensor.padding_bytes and not mine[real.size :].any()
                covered[tensor.name][at] = True
        assert all(value.all() for value in covered.values())


def digest_of(path: Path, file: ShardFile) -> str:
    """The digest of a rank file, computed from its bytes as the manifest's documentation says."""
    data = path.read_bytes()
    whole = hashlib.sha256(data[: LENGTH_BYTES + header_length(data[:LENGTH_BYTES], path.name, len(data))])
    tensors = [xxhash.xxh3_128(data[tensor.begin : tensor.end]) for tensor in file.tensors]
    assert tuple(one.hexdigest() for one in tensors) == file.tensor_digests
    for one in tensors:
        whole.update(one.digest())
    return whole.hexdigest()


def arrays_of(path: Path) -> dict:
    """Every tensor as bytes, its dimensions before them."""
    data = path.read_bytes()
    return {
        header.name: numpy.frombuffer(data, numpy.uint8, header.size_bytes, header.begin).reshape(
            (*header.shape, DTYPE_BITS[header.dtype] // 8)
        )
        for header in header_of(path)
    }


def place_in(whole, tensor) -> tuple:
    """Where in the whole tensor a rank's part lies."""

    def along(dim: int, ranges: tuple) -> list[int]:
        return [at for start, stop in ranges or ((0, whole.shape[dim]),) for at in range(start, stop)]

    axes = [numpy.arange(size) for size in whole.shape]
    if tensor.rows:
        axes[0] = along(0, tensor.rows)
    if tensor.dim is not None:
        axes[tensor.dim] = along(tensor.dim, tensor.pieces or ((tensor.start, tensor.stop),))
    return numpy.ix_(*axes)


def test_ranks_differ_where_they_are_cut(tmp_path: Path) -> None:
    _, layout = layout_for(tmp_path / "model", SMOLLM2, Degrees(tp=3))
    manifest = WeightTransfer().shard(tmp_path / "model", layout, tmp_path / "shards", None)
    assert len({file.digest for file in manifest.files}) == 3


def test_finished_shards_are_kept_and_damaged_ones_written_again(tmp_path: Path) -> None:
    _, layout = layout_for(tmp_path / "model", DEEPSEEK, Degrees(tp=2))
    into = tmp_path / "shards"
    first = WeightTransfer().shard(tmp_path / "model", layout, into, None)
    paths = [into / file.path for file in first.files]
    inodes = [path.stat().st_ino for path in paths]
    damaged = bytearray(paths[1].read_bytes())
    damaged[-1] ^= 1
    paths[1].write_bytes(damaged)
    (into / "rank-00001.safetensors.incomplete").write_bytes(b"half")
    with pytest.raises(IntegrityError, match=r"differ from their manifest: rank-00001\.safetensors \(tensor .*\)\."):
        WeightTransfer().verify(into, None)
    again = WeightTransfer().shard(tmp_path / "model", layout, into, None)
    assert again == first == read_manifest(into) == WeightTransfer().verify(into, None)
    assert paths[0].stat().st_ino == inodes[0] and paths[1].stat().st_ino != inodes[1]
    assert (into / "rank-00001.safetensors.0.quarantined").read_bytes() == damaged
    assert not list(into.glob("*.incomplete"))
    # Without a manifest nobody knows what the files are: they are written again.
    (into / "manifest.json").unlink()
    assert WeightTransfer().shard(tmp_path / "model", layout, into, None) == first
    assert paths[0].stat().st_ino != inodes[0]


def test_shards_of_another_layout_are_not_kept(tmp_path: Path) -> None:
    _, layout = layout_for(tmp_path / "model", DEEPSEEK, Degrees(tp=2))
    WeightTransfer().shard(tmp_path / "model", layout, tmp_path / "shards", None)
    inode = (tmp_path / "shards" / layout.files[0].path).stat().st_ino
    WeightTransfer().shard(tmp_path / "model", replace(layout, content_id="other"), tmp_path / "shards", None)
    assert (tmp_path / "shards" / layout.files[0].path).stat().st_ino != inode


def test_no_space_is_said_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, layout = layout_for(tmp_path / "model", SMOLLM2, Degrees())
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda folder: usage(100, 90, 10))
    with pytest.raises(DependencyError, match=f"needs {layout.files[0].size_bytes} bytes under .* and 10 are free"):
        WeightTransfer().shard(tmp_path / "model", layout, tmp_path / "shards", None)
    assert not list((tmp_path / "shards").glob("rank*"))


def test_checkpoint_that_changed_since_the_layout(tmp_path: Path) -> None:
    _, layout = layout_for(tmp_path / "model", SMOLLM2, Degrees(tp=3))
    write_checkpoint(tmp_path / "model", {**SMOLLM2, "intermediate_size": 48})
    with pytest.raises(BadInputError, match="not what the layout was made from"):
        WeightTransfer().shard(tmp_path / "model", layout, tmp_path / "shards", None)
    assert read_manifest(tmp_path / "shards") is None
    next((tmp_path / "model").glob("*.safetensors")).unlink()
    with pytest.raises(BadInputError, match="cannot be read"):
        WeightTransfer().shard(tmp_path / "model", layout, tmp_path / "shards", None)


@pytest.mark.parametrize("path", ["../x.safetensors", "/tmp/x", "a/b", ".."])
def test_layout_that_climbs_out_of_its_folder(tmp_path: Path, path: str) -> None:
    _, layout = layout_for(tmp_path / "model", SMOLLM2, Degrees())
    hostile = replace(layout, files=(replace(layout.files[0], path=path),))
    with pytest.raises(BadInputError, match="a shard is a plain file name"):
        WeightTransfer().shard(tmp_path / "model", hostile, tmp_path / "shards", None)


def test_two_writers_at_once(tmp_path: Path) -> None:
    _, layout = layout_for(tmp_path / "model", SMOLLM2, Degrees())
    refused: list[str] = []

    def intrude(done: int, total: int | None) -> None:
        try:
            WeightTransfer().shard(tmp_path / "model", layout, tmp_path / "shards", None)
        except UnavailableError as error:
            refused.append(error.message)

    WeightTransfer().shard(tmp_path / "model", layout, tmp_path / "shards", intrude)
    assert refused and "another process is writing shards" in refused[0]


def test_progress_counts_every_byte(tmp_path: Path) -> None:
    _, layout = layout_for(tmp_path / "model", MIXTRAL, Degrees(tp=2, ep=2))
    seen: list[tuple[int, int | None]] = []
    WeightTransfer().shard(tmp_path / "model", layout, tmp_path / "shards", lambda done, total: seen.append((done, total)))
    total = sum(file.size_bytes for file in layout.files)
    assert seen[-1] == (total, total) and [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert json.loads((tmp_path / "shards" / "manifest.json").read_bytes())["degrees"]["ep"] == 2
