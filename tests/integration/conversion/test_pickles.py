"""Releases of pickles alone: blocked with what to do, or converted by a child that builds nothing but tensors."""

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from dayzero.errors import BadInputError, BlockedError
from dayzero.settings import Settings, load_settings

torch = pytest.importorskip("torch")
from safetensors.torch import load_file  # noqa: E402 - after importorskip

from dayzero.app.converting import unpickle  # noqa: E402 - after importorskip

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def release(folder: Path, parts: dict[str, Any]) -> Path:
    folder.mkdir()
    for name, held in parts.items():
        torch.save(held, folder / name)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    return folder


def allowing(tmp_path: Path, *names: Path) -> Settings:
    return load_settings(data_dir=tmp_path / "data", allow_pickle=tuple(str(name.resolve()) for name in names))


def test_pickles_that_nobody_allowed_are_blocked(tmp_path: Path) -> None:
    model = release(tmp_path / "model", {"pytorch_model.bin": {"a": torch.zeros(2)}})
    with pytest.raises(BlockedError, match="into DAYZERO_ALLOW_PICKLE"):
        unpickle(allowing(tmp_path), str(model), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_tensors_come_out_as_they_were(tmp_path: Path) -> None:
    tied = torch.randn(5, 3, dtype=torch.bfloat16)
    first = {"model.embed_tokens.weight": tied, "lm_head.weight": tied, "turned": torch.arange(6.0).reshape(2, 3).T}
    second = {"step": torch.tensor(7), "none": torch.zeros(0, 4)}
    names = ("pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin")
    model = release(tmp_path / "model", dict(zip(names, (first, second), strict=True)))
    unpickle(allowing(tmp_path, model), str(model), tmp_path / "out")
    found = {name: one for path in (tmp_path / "out").glob("*.safetensors") for name, one in load_file(path).items()}
    assert set(found) == {*first, *second}
    assert all(torch.equal(found[name], tensor) for name, tensor in {**first, **second}.items())
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
    assert index["weight_map"]["step"] == "model-00002-of-00002.safetensors"
    assert (tmp_path / "out" / "config.json").read_bytes() == (model / "config.json").read_bytes()
    assert not list((tmp_path / "out").glob("*.bin"))


class Hostile:
    """Makes a file where it is unpickled by Python's own reader."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.mark),)


def test_a_pickle_that_runs_something_runs_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "it-ran"
    model = release(tmp_path / "model", {"pytorch_model.bin": {"a": torch.zeros(2), "b": Hostile(mark)}})
    with pytest.raises(BadInputError, match="no pickle of tensors alone"):
        unpickle(allowing(tmp_path, model), str(model), tmp_path / "out")
    (model / "pytorch_model.bin").write_bytes(pickle.dumps(Hostile(mark)))
    with pytest.raises(BadInputError, match="no pickle of tensors alone"):
        unpickle(allowing(tmp_path, model), str(model), tmp_path / "out")
    assert not mark.exists() and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("held", "sentence"),
    [({"a": torch.zeros(1), "epoch": 3}, "holds epoch, a int and no tensor"), ([torch.zeros(1)], "holds a list")],
)
def test_what_is_not_tensors_by_name_is_refused(tmp_path: Path, held: Any, sentence: str) -> None:
    model = release(tmp_path / "model", {"pytorch_model.bin": held})
    with pytest.raises(BadInputError, match=sentence):
        unpickle(allowing(tmp_path, model), str(model), tmp_path / "out")


def test_tensors_in_two_pickles_and_truncated_ones(tmp_path: Path) -> None:
    parts = {f"pytorch_model-0000{at}-of-00002.bin": {"a": torch.zeros(1)} for at in (1, 2)}
    model = release(tmp_path / "model", parts)
    with pytest.raises(BadInputError, match=r"a is in pytorch_model-00002-of-00002\.bin and in another"):
        unpickle(allowing(tmp_path, model), str(model), tmp_path / "out")
    path = model / "pytorch_model-00002-of-00002.bin"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(BadInputError, match="no pickle of tensors alone"):
        unpickle(allowing(tmp_path, model), str(model), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("weight_map", "sentence"),
    [
        (
            {"a": "pytorch_model.bin", "b": "pytorch_model.bin"},
            "1 tensors that the index names are in none of the pickles.*: b",
        ),
        ({"a": "pytorch_model.bin", "b": "more.bin"}, r"has no more\.bin, which its index names"),
        ({"a": "../pytorch_model.bin"}, r"pytorch_model\.bin\.index\.json names no usable file for tensor a"),
    ],
)
def test_pickles_hold_what_their_index_names(tmp_path: Path, weight_map: dict[str, str], sentence: str) -> None:
    model = release(tmp_path / "model", {"pytorch_model.bin": {"a": torch.zeros(1)}})
    (model / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(BadInputError, match=sentence):
        unpickle(allowing(tmp_path, model), str(model), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_only_the_checkpoint_is_read_of_several_copies(tmp_path: Path) -> None:
    copies = {"pytorch_model.bin": {"a": torch.ones(1)}, "pytorch_model.fp16.bin": {"a": torch.ones(1).half()}}
    model = release(tmp_path / "model", copies)
    (tensor,) = unpickle(allowing(tmp_path, model), str(model), tmp_path / "out")
    assert (tensor.name, tensor.dtype, tensor.file) == ("a", "F32", "model.safetensors")
    with pytest.raises(BadInputError, match="is there already"):
        unpickle(allowing(tmp_path, model), str(model), tmp_path / "out")
