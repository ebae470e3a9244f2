"""Shards of any plan joined again: every tensor, its place in its file, and the index, as they were."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from architectures import MODELS, legal, spec_of, write_model
from dayzero.adapters.transfer.weights import WeightTransfer
from dayzero.codec import dump
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import Integrity, ShardManifest
from dayzero.errors import BadInputError, IntegrityError
from dayzero.stages.headers.reading import header_length, parse_header
from dayzero.stages.layout.laying import UncuttableError, lay_out
from wide_checkpoints import dense, write_checkpoint

numpy = pytest.importorskip("numpy")
from dayzero.app.converting import export  # noqa: E402 - after importorskip

pytestmark = pytest.mark.torch


def data_of(path: Path) -> bytes:
    """All bytes of a file behind its header."""
    content = path.read_bytes()
    return content[8 + header_length(content[:8], path.name, len(content)) :]


def headers_of(folder: Path) -> dict[str, tuple[str, tuple[int, ...], str, bytes]]:
    """Dtype, shape, file and bytes of every tensor of a folder."""
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        content = path.read_bytes()
        length = header_length(content[:8], path.name, len(content))
        for tensor in parse_header(path.name, len(content), content[8 : 8 + length]):
            found[tensor.name] = (tensor.dtype, tensor.shape, tensor.file, content[tensor.begin : tensor.end])
    return found


def sharded(name: str, degrees: Degrees, redundant: int, home: Path) -> ShardManifest:
    index = write_model(name, home / "model")
    layout = lay_out("content", spec_of(name), index, degrees, redundant)
    return WeightTransfer().shard(home / "model", layout, home / "shards", None)


def exported(home: Path, beside: Path | None = None, integrity: Integrity = Integrity.SHA256) -> None:
    export(home / "shards", home / "out", beside, integrity=integrity, progress=None)


@st.composite
def allowed(draw: st.DrawFn) -> tuple[str, Degrees, int]:
    name = draw(st.sampled_from(sorted(MODELS)))
    degrees, redundant = draw(st.sampled_from(legal(name, 12)))
    return name, degrees, redundant


@settings(max_examples=50, deadline=None)
@given(allowed())
def test_every_layout_gives_back_the_checkpoint(case: tuple[str, Degrees, int]) -> None:
    name, degrees, redundant = case
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        try:
            sharded(name, degrees, redundant, home)
        except UncuttableError:
            return
        exported(home)
        assert headers_of(home / "out") == headers_of(home / "model")
        assert data_of(home / "out" / "model.safetensors") == data_of(home / "model" / "model.safetensors")


def test_several_files_have_their_index_and_what_lay_beside(tmp_path: Path) -> None:
    model = write_checkpoint(tmp_path / "model", dense(2, 64), 3)
    for name in ("config.json", "generation_config.json", "tokenizer.json"):
        (model.folder / name).write_text(f"{{}} {name}")
    WeightTransfer().shard(model.folder, model.layout(Degrees(tp=2, pp=2)), tmp_path / "shards", None)
    exported(tmp_path, model.folder)
    assert headers_of(tmp_path / "out") == headers_of(model.folder)
    for name in ("config.json", "generation_config.json", "tokenizer.json"):
        assert (tmp_path / "out" / name).read_bytes() == (model.folder / name).read_bytes()
    mapped = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())["weight_map"]
    assert mapped == {tensor.name: tensor.file for tensor in model.index.tensors}
    assert not list(tmp_path.glob(".*"))


def test_shards_of_some_ranks_only_are_no_checkpoint(tmp_path: Path) -> None:
    manifest = sharded("dense", Degrees(tp=3), 0, tmp_path)
    some = replace(manifest, files=manifest.files[:2])
    (tmp_path / "shards" / "manifest.json").write_bytes(dump(some))
    with pytest.raises(BadInputError, match="no shards of rank 2"):
        exported(tmp_path)
    assert not (tmp_path / "out").exists()


def test_a_changed_shard_is_found_by_its_digest(tmp_path: Path) -> None:
    manifest = sharded("dense", Degrees(tp=3), 0, tmp_path)
    path = tmp_path / "shards" / manifest.files[1].path
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(IntegrityError, match=r"differ from their manifest: rank-00001\.safetensors \(tensor "):
        exported(tmp_path)
    assert not (tmp_path / "out").exists()
    exported(tmp_path, integrity=Integrity.NONE)


def test_a_manifest_that_names_files_outside_writes_nothing(tmp_path: Path) -> None:
    manifest = sharded("dense", Degrees(tp=3), 0, tmp_path)
    rules = manifest.rules
    assert rules is not None
    outside = replace(
        manifest,
        rules=replace(rules, files=("../escaped.safetensors",)),
        files=tuple(
            replace(file, tensors=tuple(replace(one, file="../escaped.safetensors") for one in file.tensors))
            for file in manifest.files
        ),
    )
    (tmp_path / "shards" / "manifest.json").write_bytes(dump(outside))
    with pytest.raises(BadInputError, match="climbs out"):
        exported(tmp_path)
    assert not list(tmp_path.rglob("escaped*"))


def test_a_folder_without_manifest_is_none_of_shards(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    with pytest.raises(BadInputError, match="no shards were ever completed there"):
        exported(tmp_path)


def test_a_shard_that_is_cut_short_is_found_without_digests(tmp_path: Path) -> None:
    manifest = sharded("dense", Degrees(tp=3), 0, tmp_path)
    with (tmp_path / "shards" / manifest.files[1].path).open("rb+") as stream:
        stream.truncate(manifest.files[1].size_bytes - 1)
    with pytest.raises(IntegrityError, match=r"rank-00001\.safetensors \(its size or header\)"):
        exported(tmp_path, integrity=Integrity.NONE)
    assert not (tmp_path / "out").exists()
