"""When the shipped questions are asked: of a model that has learned something, and of one that nobody measured."""

from dataclasses import replace
from pathlib import Path

import pytest

from dayzero.domain.runs import Observation
from dayzero.domain.verdict import Check, CheckLayer, Grade, Verdict
from dayzero.steps import verifying
from fakes_bench import make_bench


@pytest.mark.parametrize(("perplexity", "asked"), [(None, True), (3.0, True), (45_000.0, False)])
def test_an_untrained_model_is_asked_no_questions(tmp_path: Path, perplexity: float | None, asked: bool) -> None:
    made = make_bench(tmp_path)
    if perplexity is not None:
        numbers = {"perplexity_native": perplexity}
        check = Check(CheckLayer.PRECISION, "model.perplexity", "tp1", Verdict.PASS, Grade.MEASURED, "told", numbers=numbers)
        made.ledger.put_check(check, made.lease)
    report = verifying.tasks_step(made.bench, made.lease)
    assert ([request.observation for request in made.runner.ran] == [Observation.TASKS]) is asked
    if not asked:
        assert report.verdict is Verdict.NOT_RUN and "it has learned nothing yet" in report.headline


def test_who_switches_questions_off_is_told_so(tmp_path: Path) -> None:
    made = make_bench(tmp_path)
    report = verifying.tasks_step(replace(made.bench, tasks=False), made.lease)
    assert report.verdict is Verdict.NOT_RUN and "DAYZERO_TASKS" in report.headline and made.runner.ran == []
