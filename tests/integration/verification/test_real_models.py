"""Real weights: greedy texts against the reference, and an encoder through all that applies to it."""

from pathlib import Path

import pytest

from dayzero.adapters.runners.isolated import SubprocessRunner
from dayzero.codec import load
from dayzero.domain.observed_encoding import EncodingObserved
from dayzero.domain.runs import Observation, RunRequest
from dayzero.domain.verdict import Check, Verdict
from dayzero.stages.judging.checks import judge
from observing import LIMITS, completed
from real_models import minilm, smollm2

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def checks(runner: SubprocessRunner, request: RunRequest) -> tuple[bytes, dict[str, Check]]:
    outcome = completed(runner, request)
    return outcome.document, {check.check: check for check in judge(request, outcome, load, LIMITS).checks}


def test_an_encoder_finds_the_paraphrase_of_every_sentence(runner: SubprocessRunner, tmp_path: Path) -> None:
    folder = str(minilm(tmp_path / "minilm"))
    options = {"compile": False, "tokens": 32}
    _, layers = checks(runner, RunRequest(Observation.LAYERS, "cpu", folder, dtype="float32", options=options))
    assert layers["layers.three_way"].verdict is Verdict.PASS and layers["layers.three_way"].n == 6
    document, found = checks(runner, RunRequest(Observation.ENCODING, "cpu", folder, dtype="float32"))
    observed = load(EncodingObserved, document)
    assert (observed.width, observed.pooling, observed.nearest.target_right, observed.nearest.n) == (384, "mean", 24, 24)
    assert {check.verdict for check in found.values()} == {Verdict.PASS}, [check.reason for check in found.values()]


def test_greedy_texts_of_a_real_model_are_the_references_or_part_within_its_error(
    runner: SubprocessRunner, tmp_path: Path
) -> None:
    folder = str(smollm2(tmp_path / "smollm2"))
    _, found = checks(runner, RunRequest(Observation.GENERATION, "cpu", folder))
    assert found["end_to_end.generation"].verdict is Verdict.PASS
    text = found["end_to_end.reference_text"]
    assert text.verdict is Verdict.PASS and (text.n or 0) > 30 and text.numbers["unexplained"] == 0, text.reason
    faulty = RunRequest(Observation.GENERATION, "cpu", folder, custom_operators=("planted-fault:seed=3:scale=2",))
    _, wrong = checks(runner, faulty)
    assert wrong["end_to_end.reference_text"].verdict is Verdict.FAIL
    assert "which the reference prefers by" in wrong["end_to_end.reference_text"].reason
