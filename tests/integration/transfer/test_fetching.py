"""Fetching and header reading through a real hub adapter (a folder)."""

import json
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest

from checkpoints import DEEPSEEK, SMOLLM2, index_for, names_for, spec_for
from dayzero import disk
from dayzero.adapters.hubs.directory import DirectoryHub
from dayzero.adapters.transfer.weights import WeightTransfer
from dayzero.domain.release import FileRole, Release, RepoFile
from dayzero.domain.tensors import TensorHeader
from dayzero.errors import BadInputError, DependencyError
from dayzero.steps.headers import FIRST_READ_BYTES, checkpoint_index


def safetensors(names: list[tuple[str, tuple[int, ...]]], padding: int = 0) -> bytes:
    document: dict[str, object] = {"__metadata__": {"padding": "x" * padding}}
    at = 0
    for name, shape in names:
        size = 2
        for length in shape:
            size *= length
        document[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    header = json.dumps(document).encode()
    return len(header).to_bytes(8, "little") + header + bytes(at)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A repository with two shards, their index, and much that nobody needs."""
    home = tmp_path / "hub" / "org" / "name"
    home.mkdir(parents=True)
    names = names_for(SMOLLM2)
    parts = {"model-1.safetensors": names[:9], "model-2.safetensors": names[9:]}
    for file, part in parts.items():
        # The second header is longer than the first ranged read.
        (home / file).write_bytes(safetensors(part, FIRST_READ_BYTES if file == "model-2.safetensors" else 0))
    weight_map = {name: file for file, part in parts.items() for name, _ in part}
    (home / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (home / "config.json").write_text(json.dumps(SMOLLM2))
    (home / "tokenizer.json").write_text("{}")
    for name in ("pytorch_model.bin", "modeling_new.py", "README.md", "stray.safetensors"):
        (home / name).write_bytes(b"not needed")
    (home / "original").mkdir()
    (home / "original" / "model.safetensors").write_bytes(b"not needed")
    return home


def release_of(home: Path) -> tuple[DirectoryHub, Release]:
    hub = DirectoryHub(home)
    return hub, hub.release(str(home), None)


def test_headers_without_a_download(model: Path) -> None:
    hub, release = release_of(model)
    index = checkpoint_index(hub, release)
    assert [(finding.code, finding.names) for finding in index.findings] == [("index.copy_unread", ("stray.safetensors",))]
    assert [tensor.name for tensor in index.tensors] == sorted(name for name, _ in names_for(SMOLLM2))
    assert index.weight_bytes == index_for(SMOLLM2).weight_bytes
    spec = spec_for(SMOLLM2, index)
    assert spec.parameters.total_language == spec.parameters.checkpoint_total == spec_for(SMOLLM2).parameters.total_language
    assert spec.findings == index.findings


def test_only_what_is_needed_is_fetched(model: Path, tmp_path: Path) -> None:
    hub, release = release_of(model)
    seen: list[tuple[int, int | None]] = []
    into = WeightTransfer().fetch(hub, release, tmp_path / "into", lambda done, total: seen.append((done, total)))
    found = {str(path.relative_to(into)) for path in into.rglob("*") if path.is_file() and not path.name.startswith(".")}
    assert found == {
        "config.json", "tokenizer.json", "model.safetensors.index.json", "model-1.safetensors", "model-2.safetensors",
    }  # fmt: skip
    total = sum((model / path).stat().st_size for path in found)
    assert seen[-1] == (total, total)
    assert (into / "model-2.safetensors").read_bytes() == (model / "model-2.safetensors").read_bytes()
    assert WeightTransfer().fetch(hub, release, tmp_path / "into", None) == into


def test_index_that_names_a_missing_shard(model: Path, tmp_path: Path) -> None:
    (model / "model-2.safetensors").unlink()
    hub, release = release_of(model)
    codes = {finding.code for finding in checkpoint_index(hub, release).findings}
    assert codes == {"index.file_missing", "index.tensor_missing", "index.copy_unread"}
    with pytest.raises(BadInputError, match=r"names 1 files that are not there: model-2\.safetensors"):
        WeightTransfer().fetch(hub, release, tmp_path / "into", None)


@pytest.mark.parametrize("content", [b"", b"\xff" * 64, b"\x10\0\0\0\0\0\0\0" + b"{" * 16, b"<html>gateway timeout</html>"])
def test_header_that_lies(model: Path, content: bytes) -> None:
    (model / "model-1.safetensors").write_bytes(content)
    hub, release = release_of(model)
    with pytest.raises(BadInputError, match=r"model-1\.safetensors"):
        checkpoint_index(hub, release)


def test_names_that_climb_out(model: Path, tmp_path: Path) -> None:
    hub, release = release_of(model)
    for path in ("../config.json", "/etc/config.json"):
        hostile = replace(release, files=(RepoFile(path, 3, FileRole.CONFIGURATION), *release.files))
        hostile = replace(hostile, files=(*hostile.files, RepoFile("chat_templates/../../x", 3, FileRole.TOKENIZER)))
        with pytest.raises(BadInputError, match="is refused"):
            WeightTransfer().fetch(hub, hostile, tmp_path / "into", None)
    assert not (tmp_path / "into").exists()


def test_no_space_is_said_first(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub, release = release_of(model)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda folder: usage(100, 90, 10))
    with pytest.raises(DependencyError, match="and 10 are free"):
        WeightTransfer().fetch(hub, release, tmp_path / "into", None)
    assert [path for path in (tmp_path / "into").rglob("*") if path.is_file()] == []


def test_disagreement_between_headers_and_configuration_names_the_tensor() -> None:
    index = index_for(DEEPSEEK)
    first = index.tensors[0]
    extra = TensorHeader("model.layers.0.self_attn.k_norm.weight", "BF16", (3,), first.file, 0, 6)
    spec = spec_for(DEEPSEEK, replace(index, tensors=(*index.tensors[1:], extra)))
    codes = {finding.code: finding.subject for finding in spec.findings}
    assert codes["parameters.unexplained"] == extra.name
    assert "parameters.missing" in codes
