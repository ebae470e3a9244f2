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
from dayzero.domain.shards import ShardManifest
from dayzero.errors import BadInputError, IntegrityError
from dayzero.stages.headers.reading import header_length, index_of, parse_header
from dayzero.stages.layout.laying import UncuttableError, lay_out
from dayzero.stages.structure.reading import read_spec

numpy = pytest.importorskip("numpy")
from dayzero.adapters.conversion.exporting import export_shards  # noqa: E402 - after importorskip

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
        export_shards(home / "shards", home / "out")
        assert headers_of(home / "out") == headers_of(home / "model")
        assert data_of(home / "out" / "model.safetensors") == data_of(home / "model" / "model.safetensors")


def test_several_files_have_their_index_and_what_lay_beside(tmp_path: Path) -> None:
    from conversion_models import write_model as write_library_model

    model = write_library_model(tmp_path / "model", "dense")
    headers = {}
    for path in sorted(model.glob("*.safetensors")):
        content = path.read_bytes()
        length = header_length(content[:8], path.name, len(content))
        headers[path.name] = parse_header(path.name, len(content), content[8 : 8 + length])
    assert len(headers) > 1
    index = index_of(headers, None)
    spec = read_spec((model / "config.json").read_bytes(), index)
    WeightTransfer().shard(model, lay_out("c", spec, index, Degrees(tp=2, pp=2)), tmp_path / "shards", None)
    export_shards(tmp_path / "shards", tmp_path / "out", model)
    assert headers_of(tmp_path / "out") == headers_of(model)
    for name in ("config.json", "generation_config.json"):
        assert (tmp_path / "out" / name).read_bytes() == (model / name).read_bytes()
    maps = [json.loads((at / "model.safetensors.index.json").read_text())["weight_map"] for at in (tmp_path / "out", model)]
    assert maps[0] == maps[1]
    assert not list(tmp_path.glob(".*"))


def test_shards_of_some_ranks_only_are_no_checkpoint(tmp_path: Path) -> None:
    manifest = sharded("dense", Degrees(tp=3), 0, tmp_path)
    some = replace(manifest, files=manifest.files[:2])
    (tmp_path / "shards" / "manifest.json").write_bytes(dump(some))
    with pytest.raises(BadInputError, match="no shards of rank 2"):
        export_shards(tmp_path / "shards", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_changed_shard_is_found_by_its_digest(tmp_path: Path) -> None:
    manifest = sharded("dense", Degrees(tp=3), 0, tmp_path)
    path = tmp_path / "shards" / manifest.files[1].path
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(IntegrityError, match=r"rank-00001\.safetensors has the digest"):
        export_shards(tmp_path / "shards", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    export_shards(tmp_path / "shards", tmp_path / "out", check_digests=False)


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
    with pytest.raises(BadInputError, match="outside"):
        export_shards(tmp_path / "shards", tmp_path / "out")
    assert not list(tmp_path.rglob("escaped*"))


def test_a_folder_without_manifest_is_none_of_shards(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no shards were finished there"):
        export_shards(tmp_path, tmp_path / "out")
