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


def test_what_is_only_run_by_name() -> None:
    assert "caches" not in names(Mode.FINE_TUNE)
    assert "caches" not in [step.name for step in verification_steps(())]
    asked = [step.name for step in verification_steps(("caches",))]
    assert asked[-1] == "caches" and "perplexity" not in asked and "fetch" in asked


def test_a_check_of_another_mode_is_unknown_and_the_message_lists_what_there_is() -> None:
    with pytest.raises(BadInputError, match="no check is called training") as raised:
        verification_steps(("training",))
    assert "caches" in str(raised.value)
    assert verification_steps(("training",), Mode.FINE_TUNE)[-1].name == "training"


def test_before_the_checks_the_model_is_brought_to_the_platform() -> None:
    before = [step.name for step in steps_before_checks()]
    assert before[-1] == "shard" and "layers" not in before
