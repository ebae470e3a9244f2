"""A small part of the matrix of planted faults (tests/prove has the whole), and the page that is made of its figures."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
import planted_faults  # noqa: E402
import planted_table  # noqa: E402
from dayzero.adapters.runners import planting  # noqa: E402
from dayzero.domain.runs import Observation, RunRequest  # noqa: E402
from dayzero.domain.verdict import Verdict  # noqa: E402
from dayzero.errors import BadInputError  # noqa: E402

pytestmark = pytest.mark.torch

CELLS = (
    ("dense", "rotary_base", "bfloat16"),
    ("dense", "kv_map", "bfloat16"),
    ("mla_moe", "topk_norm", "bfloat16"),
    ("window_sinks", "window_ignored", "bfloat16"),
    ("window_sinks", "mask_off_by_one", "float32"),
    ("gated_delta", "stale_cache", "bfloat16"),
    ("fp8_block", "quantization_scale", "bfloat16"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.mark.parametrize(("kind", "fault", "dtype"), CELLS)
def test_a_planted_fault_is_found_where_it_is(kind: str, fault: str, dtype: str, folder: Path) -> None:
    found = planted_faults.cell(kind, planted_faults.model_of(kind, 0, folder), fault, dtype, 0)
    assert found.applies
    assert found.effect is not None and found.effect > planted_faults.LEAST_EFFECT
    assert (found.detected, found.layer_named, found.module_named) == (True, True, True), found


@pytest.mark.parametrize("kind", ["dense", "mla_moe"])
def test_sound_runs_raise_no_alarm(kind: str, folder: Path) -> None:
    runs = list(planted_faults.clean((kind,), ("bfloat16",), (0,), ("eager", "sdpa"), folder))
    assert [run.reason for run in runs if run.alarm] == []
    assert {run.verdict for run in runs} == {Verdict.PASS.value, Verdict.NOT_RUN.value}


def test_what_the_library_decodes_wrongly_itself_is_not_judged(folder: Path) -> None:
    """The library's Jamba begins anew when several tokens come behind a cache: no target is measured against that."""
    model = planted_faults.model_of("mamba", 0, folder)
    (check,) = planted_faults.judged(planted_faults.asked(model, Observation.DECODING, "float32")).checks
    assert check.verdict is Verdict.PASS
    assert check.numbers["chunk_not_judged"] == "the reference itself is wrong there at layer 0"
    assert "several at once behind a cache are not judged" in check.reason


def test_float16_that_overflows_fails_at_its_first_layer(tmp_path: Path) -> None:
    """Case E01, on a real run: the second layer's output is beyond what float16 holds; nothing crashes."""
    from safetensors.torch import load_file, save_file

    model = planted_faults.model_of("fp8_block", 0, tmp_path)
    tensors = load_file(model / "model.safetensors")
    tensors["model.layers.1.mlp.down_proj.weight_scale_inv"] *= 1e8
    save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})
    result = planted_faults.judged(planted_faults.asked(model, Observation.LAYERS, "float16"))
    assert result.checks[0].verdict is Verdict.FAIL
    assert [culprit.layer_index for culprit in result.culprits] == [1]
    assert "overflows float16" in result.checks[0].reason


def test_a_prompt_goes_beyond_the_window_by_itself_and_a_short_one_says_what_it_misses(folder: Path) -> None:
    """Case E04."""
    model = planted_faults.model_of("window_sinks", 0, folder)
    plain = planted_faults.asked(model, Observation.LAYERS, "float32")
    short = RunRequest(Observation.LAYERS, "cpu", plain.model_dir, dtype="float32", options={"compile": False, "tokens": 12})
    by_itself = RunRequest(Observation.LAYERS, "cpu", plain.model_dir, dtype="float32", options={"compile": False})
    assert "beyond the window of 16" in str(planted_faults.judged(short).checks[0].numbers["paths_not_reached"])
    assert planted_faults.judged(by_itself).checks[0].numbers["paths_not_reached"] is None


def test_a_fault_that_nothing_in_the_model_can_have_is_refused(folder: Path) -> None:
    model = planted_faults.model_of("dense", 0, folder)
    for fault in ("shared_expert", "nonesuch"):
        asked = planted_faults.asked(model, Observation.LAYERS, "float32", plugins=(f"planted-fault:fault={fault}",))
        with pytest.raises(BadInputError):
            planted_faults.judged(asked)
    assert set(planted_faults.FAULTS) == {*planting.LAYER_FAULTS, *planting.MODEL_FAULTS}


def test_the_page_is_what_the_figures_make_it() -> None:
    assert planted_table.TABLE.read_text() == planted_table.written()
