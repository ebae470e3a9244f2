"""Which steps belong to which mode, and which are only run when they are named."""

import pytest

from dayzero.app.work import steps_before_checks, steps_for, verification_steps
from dayzero.domain.adaptation import Purpose
from dayzero.domain.verdict import Mode
from dayzero.errors import BadInputError
from dayzero.steps.contract import Place


def names(mode: Mode) -> list[str]:
    return [step.name for step in steps_for(Purpose.ADAPT, Place.PLATFORM, mode)]


def test_a_fine_tune_has_the_steps_of_inference_and_its_training() -> None:
    inference = names(Mode.INFERENCE)
    assert "training" not in inference
    assert names(Mode.FINE_TUNE) == [*inference, "training"]


def test_what_is_run_whatever_the_plan_says_when_it_is_named() -> None:
    (usual,) = [step for step in verification_steps(()) if step.name == "caches"]
    asked = verification_steps(("caches",))
    assert asked[-1].name == "caches" and asked[-1].run is not usual.run
    assert not {"perplexity", "layers"} & {step.name for step in asked} and "fetch" in [step.name for step in asked]


def test_a_check_of_another_mode_is_unknown_and_the_message_lists_what_there_is() -> None:
    with pytest.raises(BadInputError, match="no check is called training") as raised:
        verification_steps(("training",))
    assert "caches" in str(raised.value)
    assert verification_steps(("training",), Mode.FINE_TUNE)[-1].name == "training"


def test_before_the_checks_the_model_is_brought_to_the_platform() -> None:
    before = [step.name for step in steps_before_checks()]
    assert before[-1] == "shard" and "layers" not in before
