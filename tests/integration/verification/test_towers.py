"""Layers of encoders of images and sound, three ways: sound ones pass, a fault in one is named with its path in the model."""

from collections.abc import Mapping
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from dayzero.adapters.runners import loading  # noqa: E402 - after importorskip
from dayzero.adapters.runners.child import observe  # noqa: E402 - after importorskip
from dayzero.adapters.runners.observe_layers import observe_layers  # noqa: E402 - after importorskip
from dayzero.adapters.runners.tower_inputs import drawn_input  # noqa: E402 - after importorskip
from dayzero.domain.observed_towers import TowersObserved  # noqa: E402 - after importorskip
from dayzero.domain.runs import Observation, RunRequest  # noqa: E402 - after importorskip
from dayzero.domain.verdict import Verdict  # noqa: E402 - after importorskip
from dayzero.errors import BlockedError  # noqa: E402 - after importorskip
from dayzero.stages.judging.towers import towers_check  # noqa: E402 - after importorskip
from tower_models import TOWERS, tower_model  # noqa: E402 - after importorskip

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    into = tmp_path_factory.mktemp("towers")
    return {family: tower_model(family, into) for family in TOWERS}


def observed(folder: str, *faults: str, compiled: bool = False) -> TowersObserved:
    found = observe(RunRequest(Observation.TOWERS, "cpu", folder, custom_operators=faults, options={"compile": compiled}))
    assert isinstance(found, TowersObserved)
    return found


PATHS = {
    "llava": ["vision_tower.encoder.layers"],
    "qwen2_5_vl": ["visual.blocks"],
    "gemma3": ["vision_tower.encoder.layers"],
    "gemma4": ["vision_tower.encoder.layers", "audio_tower.layers"],
    "qwen2_audio": ["audio_tower.layers"],
    "mistral3": ["vision_tower.transformer.layers"],
}


SLOWER = [pytest.param("gemma4", marks=pytest.mark.slow)]
"""Its encoder of sound has one attention alone, so that only a compiled target takes another path."""


@pytest.mark.parametrize("family", [*(one for one in TOWERS if one != "gemma4"), *SLOWER])
def test_every_layer_of_a_sound_tower_is_run_and_passes(family: str, folders: Mapping[str, str]) -> None:
    found = observed(folders[family], compiled=family == "gemma4")
    layers = [layer for tower in found.towers if tower.layers for layer in tower.layers.layers]
    assert [tower.unable for tower in found.towers] == [None] * len(PATHS[family])
    assert list(dict.fromkeys(layer.module.rpartition(".")[0] for layer in layers)) == PATHS[family]
    check, culprits = towers_check(found, "tp1")
    assert (check.check, check.verdict, culprits) == ("layers.towers", Verdict.PASS, ()), check.reason
    assert check.n == len(layers) >= 3


@pytest.mark.parametrize(
    ("family", "fault", "module"),
    [
        ("llava", "seed=1", "vision_tower.encoder.layers.2.mlp.activation_fn"),
        ("llava", "fault=attention_scale", "vision_tower.encoder.layers.2.self_attn"),
        ("qwen2_5_vl", "seed=1", "visual.blocks.2.mlp.act_fn"),
        ("qwen2_5_vl", "fault=gate_up", "visual.blocks.2.mlp."),
        ("gemma4", "fault=gate_up", "vision_tower.encoder.layers.0.mlp."),
        ("qwen2_audio", "fault=attention_scale", "audio_tower.layers.2.self_attn"),
        ("mistral3", "fault=gate_up", "vision_tower.transformer.layers.2.feed_forward."),
    ],
)
def test_a_fault_in_a_tower_is_found_where_it_is(family: str, fault: str, module: str, folders: Mapping[str, str]) -> None:
    check, (culprit,) = towers_check(observed(folders[family], f"planted-fault:{fault}"), "tp1")
    assert check.verdict is Verdict.FAIL and module in check.reason
    assert culprit.module.startswith(module) and f".{culprit.layer_index}." in module


def test_a_tower_whose_target_takes_the_reference_s_own_path_is_not_run(folders: Mapping[str, str]) -> None:
    check, _ = towers_check(observed(folders["gemma4"]), "tp1")
    assert check.verdict is Verdict.NOT_RUN
    assert "vision_tower: all 3 layers are as close" in check.reason and "audio_tower: the target ran" in check.reason


def test_float32_is_compared_with_float64(tmp_path: Path) -> None:
    folder = tower_model("llava", tmp_path, "float32")
    found = observed(folder)
    assert found.towers[0].layers is not None and found.towers[0].layers.reference_dtype == "float64"
    assert towers_check(found, "tp1")[0].verdict is Verdict.PASS
    assert towers_check(observed(folder, "planted-fault:fault=attention_scale"), "tp1")[0].verdict is Verdict.FAIL


def test_nothing_of_the_language_model_is_read(folders: Mapping[str, str]) -> None:
    (tower,) = observed(folders["llava"]).towers
    assert tower.layers is not None and tower.layers.source is not None
    model = loading.from_pretrained(Path(folders["llava"]), torch.bfloat16, headless=True)[0]
    held = sum(tensor.numel() * 2 for tensor in model.vision_tower.parameters())
    assert tower.layers.source.streamed and tower.layers.source.read_bytes == held


def test_the_language_model_beside_a_tower_of_as_many_layers_is_its_own(folders: Mapping[str, str]) -> None:
    found = observe_layers(RunRequest(Observation.LAYERS, "cpu", folders["llava"], options={"compile": False}))
    assert [layer.module for layer in found.layers] == [f"model.language_model.layers.{index}" for index in range(4)]


def test_a_tower_that_takes_something_else_says_what() -> None:
    class Other(torch.nn.Module):
        def forward(self, waves: object, lengths: object) -> None: ...

    with pytest.raises(BlockedError, match="Other takes waves, lengths, for which no input can be drawn"):
        drawn_input(Other(), torch.float32)
