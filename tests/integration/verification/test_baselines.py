"""Recorded baselines stand in for the references, bit for bit, and only where they belong."""

from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from safetensors.torch import load_file, save_file  # noqa: E402 - after importorskip

import streamed_families  # noqa: E402 - after importorskip
from dayzero.adapters.runners.baseline_folders import list_baselines  # noqa: E402 - after importorskip
from dayzero.adapters.runners.observe_baseline import observe_baseline  # noqa: E402 - after importorskip
from dayzero.adapters.runners.observe_layers import observe_layers  # noqa: E402 - after importorskip
from dayzero.adapters.runners.observe_perplexity import observe_perplexity  # noqa: E402 - after importorskip
from dayzero.domain.baselines import Baseline  # noqa: E402 - after importorskip
from dayzero.domain.observations import LayerErrors, PerplexityObserved  # noqa: E402 - after importorskip
from dayzero.domain.runs import RunRequest  # noqa: E402 - after importorskip
from dayzero.errors import BadInputError  # noqa: E402 - after importorskip

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> RunRequest:
    return streamed_families.checkpoint("qwen3_moe", tmp_path_factory.mktemp("moe"))


def given(request: RunRequest, at: Path, content: str = "c" * 64, **more: int | str) -> RunRequest:
    return replace(request, options={**request.options, "baseline_dir": str(at), "content_id": content, **more})


def figures(observed: LayerErrors | PerplexityObserved) -> LayerErrors | PerplexityObserved:
    return replace(streamed_families.figures(observed), baseline=None)


def kinds(found: tuple[Baseline, ...]) -> dict[str, Baseline]:
    return {one.of.kind: one for one in found}


@pytest.mark.parametrize("where", ["memory", "stream"])
def test_observations_from_a_baseline_are_those_without(made: RunRequest, tmp_path: Path, where: str) -> None:
    asked = given(made, tmp_path / "kept", layers_from=where)
    plain_layers, plain_model = observe_layers(made), observe_perplexity(made)
    assert plain_layers.baseline is plain_model.baseline is None
    assert observe_layers(asked).baseline is None
    recorded = kinds(observe_baseline(asked).baselines)
    layers, model = observe_layers(asked), observe_perplexity(asked)
    assert (layers.baseline, model.baseline) == (recorded["layers"].of.name, recorded["logits"].of.name)
    assert figures(layers) == figures(plain_layers)
    assert figures(model) == figures(plain_model)
    assert recorded["logits"].nll_reference == model.nll_reference
    assert all(layer.kept_bytes > 0 and layer.rms for layer in recorded["layers"].layers)


def test_it_is_read_and_not_computed_again(made: RunRequest, tmp_path: Path) -> None:
    asked = given(made, tmp_path)
    recorded = kinds(observe_baseline(asked).baselines)
    file = tmp_path / recorded["layers"].of.name / "layer-00001.safetensors"
    tensors = load_file(file)
    tensors["exact"] = tensors["exact"] * 1.5
    save_file(tensors, file)
    changed, plain = observe_layers(asked), observe_layers(made)
    assert [a.target != b.target for a, b in zip(changed.layers, plain.layers, strict=True)] == [False, True, False, False]
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(BadInputError, match="cannot be read"):
        observe_layers(asked)


def test_only_chosen_layers_keep_their_tensors(made: RunRequest, tmp_path: Path) -> None:
    asked = given(made, tmp_path, keep_layers="1, 3")
    recorded = kinds(observe_baseline(asked).baselines)["layers"]
    assert [layer.kept_bytes > 0 for layer in recorded.layers] == [False, True, False, True]
    assert figures(observe_layers(asked)) == figures(observe_layers(made))
    none = given(made, tmp_path / "none", keep_layers="none", most_bytes=0)
    observe_baseline(none)
    assert observe_layers(none).baseline is None and observe_perplexity(none).baseline is None
    for wrong in ("4", "a", "1,,2"):
        with pytest.raises(BadInputError, match="names no layers of 4"):
            observe_baseline(given(made, tmp_path / "wrong", keep_layers=wrong))
    assert not [one for one in (tmp_path / "wrong").iterdir() if not one.name.startswith(".")]


def test_a_baseline_is_of_its_content_its_inputs_and_its_dtype(made: RunRequest, tmp_path: Path) -> None:
    asked = given(made, tmp_path)
    first = observe_baseline(asked).baselines
    assert observe_baseline(asked).baselines == first
    others = (given(made, tmp_path, "d" * 64), given(made, tmp_path, tokens=20), replace(asked, dtype="float32"))
    for other in others:
        assert observe_layers(other).baseline is None
    assert observe_layers(asked).baseline is not None
    assert {one.of.name for one in list_baselines(tmp_path)} == {one.of.name for one in first}
    with pytest.raises(BadInputError, match="needs the options"):
        observe_baseline(made)


def test_a_folder_that_is_another_ones_is_refused(made: RunRequest, tmp_path: Path) -> None:
    name = observe_baseline(given(made, tmp_path)).baselines[0].of.name
    (tmp_path / name).rename(tmp_path / ("0" * 64))
    with pytest.raises(BadInputError, match=f"holds the baseline {name}"):
        list_baselines(tmp_path)
    assert list_baselines(tmp_path / "nothing") == ()
