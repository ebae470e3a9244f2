"""Fine-tuning three ways: sound models pass over seeds, dtypes and kinds of architecture; a wrong backward is named."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from dayzero.adapters.runners.child import observe  # noqa: E402 - after importorskip
from dayzero.codec import dump, load  # noqa: E402
from dayzero.domain.observed_training import TrainingObserved  # noqa: E402
from dayzero.domain.runs import Observation, RunEnd, RunOutcome, RunRequest  # noqa: E402
from dayzero.domain.verdict import Verdict  # noqa: E402
from dayzero.stages.judging.checks import Judged, judge  # noqa: E402
from dayzero.stages.precision.planting import planted_layer  # noqa: E402
from dummy_models import dummy_model  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
KINDS = ("llama", "qwen3_moe", "qwen3_next")
"""Dense, mixture of experts, and a hybrid of linear and full attention with experts."""
FEW = {"tokens": 48, "steps": 3}


def trained(folder: str, dtype: str, plugin: str | None = None, **options: int | str) -> tuple[TrainingObserved, Judged]:
    request = RunRequest(
        Observation.TRAINING, "cpu", folder, dtype=dtype, custom_operators=(plugin,) if plugin else (),
        options={**FEW, **options},
    )  # fmt: skip
    noun = observe(request)
    assert isinstance(noun, TrainingObserved)
    return noun, judge(request, RunOutcome(RunEnd.COMPLETED, dump(noun), "", "", 1.0, None), load)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_sound_training_passes_full_and_with_adapters(tmp_path: Path, dtype: str) -> None:
    noun, judged = trained(dummy_model("qwen3_moe", 0, dtype, tmp_path), dtype)
    assert [check.verdict for check in judged.checks] == [Verdict.PASS, Verdict.PASS], [one.reason for one in judged.checks]
    assert all(run.choices_forced > 0 for run in noun.runs)
    scaled = [run.scaling_target is not None for run in noun.runs]
    assert scaled == [dtype == "float16"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_false_alarm(tmp_path: Path, kind: str, dtype: str, seed: int) -> None:
    _noun, judged = trained(dummy_model(kind, seed, dtype, tmp_path), dtype)
    assert [check.verdict for check in judged.checks] == [Verdict.PASS, Verdict.PASS], [one.reason for one in judged.checks]


@pytest.mark.parametrize(("kind", "dtype"), [("llama", "bfloat16"), ("qwen3_next", "float32")])
def test_a_wrong_backward_is_named_and_the_forward_is_not_blamed(tmp_path: Path, kind: str, dtype: str) -> None:
    folder = dummy_model(kind, 1, dtype, tmp_path)
    noun, judged = trained(folder, dtype, "planted-fault:seed=3:gradient=1.1", methods="full")
    layer = planted_layer(3, 4)
    assert judged.checks[0].verdict is Verdict.FAIL
    assert {culprit.layer_index for culprit in judged.culprits} == {layer}
    assert all(culprit.module.endswith("act_fn") for culprit in judged.culprits), judged.culprits
    assert noun.runs[0].losses_target[0] is not None
