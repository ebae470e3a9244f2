"""Verdicts on training: for each limit, figures on both sides of it."""

from dataclasses import replace

import pytest

from dayzero.codec import dump, load
from dayzero.domain.observed_training import (
    BackwardError,
    DirectionError,
    GradientError,
    Scaling,
    TrainingObserved,
    TrainingRun,
)
from dayzero.domain.runs import Observation, RunEnd, RunOutcome, RunRequest
from dayzero.domain.verdict import Check, Culprit, Verdict
from dayzero.stages.judging.checks import judge

NATIVE = DirectionError(4096, 0.01, 0.9999, 1.0)
GOOD = DirectionError(4096, 0.012, 0.9999, 1.0)
OFF = DirectionError(4096, 0.021, 0.999, 1.0)
FALLING = (3.0, 2.9, 2.8)
WHOLE = (GradientError("", GOOD, NATIVE), GradientError("model.layers.0.mlp.up_proj", GOOD, NATIVE))
TWO_OFF = (GradientError("", OFF, NATIVE), GradientError("a.b", OFF, NATIVE))
FAR_OFF = (GradientError("", replace(OFF, relative=0.11), NATIVE),)
RUN = TrainingRun(
    "full", 5000, 2, 1e-4, FALLING, (3.001, 2.901, 2.801), (3.001, 2.899, 2.802), WHOLE, WHOLE, 0.01, 0.01, 0.01, False
)
LAYERS = tuple(BackwardError(index, f"model.layers.{index}", "input", GOOD, NATIVE) for index in range(3))


def observed(*runs: TrainingRun, **changes: object) -> TrainingObserved:
    made = TrainingObserved("bfloat16", "float32", "eager, sdpa", "eager", 96, "tok", "AdamW", LAYERS, (), runs or (RUN,))
    return replace(made, **changes)  # type: ignore[arg-type]


def judged(noun: TrainingObserved) -> tuple[Check, Check, tuple[Culprit, ...]]:
    outcome = RunOutcome(RunEnd.COMPLETED, dump(noun), "", "", 1.0, None)
    result = judge(RunRequest(Observation.TRAINING, "cpu"), outcome, load)
    full, lora = result.checks
    assert (full.check, lora.check) == ("fine_tune.training", "fine_tune.lora")
    return full, lora, result.culprits


def test_sound_training_passes_and_what_was_not_asked_for_is_not_run() -> None:
    full, lora, culprits = judged(observed())
    assert (full.verdict, full.n, full.tolerance, culprits) == (Verdict.PASS, 5000, 0.02, ())
    assert lora.verdict is Verdict.NOT_RUN
    assert judged(observed(RUN, replace(RUN, method="lora")))[1].verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("changed", "verdict", "said"),
    [
        ({"losses_target": (3.0, 2.9, None)}, Verdict.FAIL, "not finite at step 2"),
        ({"losses_target": (3.0, 2.9, 2.85)}, Verdict.FAIL, "leaves the reference's"),
        ({"losses_target": (3.0, 2.9, 2.82)}, Verdict.PASS, ""),
        ({"losses_native": (3.0, 2.9, None)}, Verdict.ERROR, "own losses"),
        ({"losses_reference": (3.0, 3.1, 3.0)}, Verdict.ERROR, "does not learn"),
        ({"moved_reference": 0.0}, Verdict.ERROR, "does not learn"),
        ({"gradients": TWO_OFF, "gradients_after": TWO_OFF}, Verdict.FAIL, "worst in a.b"),
        ({"gradients": TWO_OFF}, Verdict.PASS, ""),
        ({"gradients": FAR_OFF}, Verdict.FAIL, "the first gradient"),
        ({"gradients_after": FAR_OFF}, Verdict.FAIL, "the last gradient"),
        ({"gradients": (GradientError("", replace(GOOD, nonfinite=3), NATIVE),)}, Verdict.FAIL, "3 elements are NaN"),
        ({"gradients": (GradientError("", GOOD, replace(NATIVE, cosine=0.89)),)}, Verdict.ERROR, "far from float32"),
        ({"still": ("model.norm.weight",)}, Verdict.FAIL, "model.norm.weight did not move"),
        ({"without_gradient": ("lm_head.weight",)}, Verdict.FAIL, "got no gradient"),
        ({"moved_target": 0.004}, Verdict.FAIL, "0.4 times as far"),
        ({"moved_target": None}, Verdict.FAIL, "not finite"),
        ({"identical": True}, Verdict.NOT_RUN, "own path"),
        ({"scaling_target": Scaling(65536.0, 2.0**-17, 33, True)}, Verdict.FAIL, "33 overflows"),
        ({"scaling_native": Scaling(65536.0, 2.0**-17, 33, True)}, Verdict.ERROR, "33 overflows"),
        ({"scaling_target": Scaling(65536.0, 8192.0, 3)}, Verdict.PASS, "3 overflows"),
    ],
)
def test_each_limit_decides(changed: dict[str, object], verdict: Verdict, said: str) -> None:
    full, _lora, _culprits = judged(observed(replace(RUN, **changed)))  # type: ignore[arg-type]
    assert full.verdict is verdict
    assert said in full.reason


def test_the_innermost_module_with_a_wrong_backward_is_named() -> None:
    wrong = BackwardError(1, "model.layers.1", "mlp.gate_proj.weight", OFF, NATIVE)
    outer = BackwardError(1, "model.layers.1.mlp", "in0", OFF, NATIVE, 1)
    inner = BackwardError(1, "model.layers.1.mlp.act_fn", "in0", replace(OFF, relative=0.05), NATIVE, 2)
    sound = BackwardError(1, "model.layers.1.mlp.up_proj", "in0", GOOD, NATIVE, 2)
    full, _lora, culprits = judged(observed(backward=(*LAYERS, wrong), suspects=(outer, inner, sound)))
    assert [(one.layer_index, one.module, one.operator) for one in culprits] == [(1, inner.module, "backward")]
    assert full.verdict is Verdict.FAIL
    assert "model.layers.1.mlp.act_fn is wrong" in full.reason


def test_a_small_vector_is_allowed_more_than_a_large_one() -> None:
    few = replace(OFF, n=8)
    assert judged(observed(backward=(BackwardError(0, "m", "weight", few, NATIVE),)))[0].verdict is Verdict.PASS
    far = replace(few, relative=0.11)
    assert judged(observed(backward=(BackwardError(0, "m", "weight", far, NATIVE),)))[0].verdict is Verdict.FAIL


def test_a_gradient_where_there_is_none_stands_out() -> None:
    none = DirectionError(4096, 0.0, 1.0, 1.0)
    some = DirectionError(4096, None, 0.0, None)
    assert judged(observed(backward=(BackwardError(0, "m", "weight", some, none),)))[0].verdict is Verdict.FAIL
