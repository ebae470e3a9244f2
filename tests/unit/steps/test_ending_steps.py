"""How attempts end: states and entries follow from what was found, and an image is built, missing or broken."""

from pathlib import Path

import pytest

from dayzero.domain.adaptation import AdaptationState, Purpose
from dayzero.domain.entry import Correctness, Lifecycle
from dayzero.domain.verdict import Verdict
from dayzero.errors import (
    BadInputError,
    BlockedError,
    DayzeroError,
    ExitCode,
    IntegrityError,
    MeasurementError,
    UnavailableError,
)
from dayzero.steps import planning, prestaging, publishing, weights
from dayzero.steps.concluding import conclude, entry_rows, stop
from dayzero.steps.documents import adapt_document, exit_code_of_outcome
from fakes_bench import FakeImages, make_bench

STOPPED = [
    (BlockedError("it is gated.", remedy="Ask."), AdaptationState.BLOCKED, ExitCode.NOT_MEASURED),
    (MeasurementError("nothing came."), AdaptationState.FAILED, ExitCode.NOT_MEASURED),
    (BadInputError("it lies."), AdaptationState.FAILED, ExitCode.BAD_INPUT),
    (IntegrityError("other bytes."), AdaptationState.FAILED, ExitCode.BAD_INPUT),
    (UnavailableError("it is down."), AdaptationState.FAILED, ExitCode.DEPENDENCY),
]


@pytest.mark.parametrize(("error", "state", "code"), STOPPED, ids=[type(row[0]).__name__ for row in STOPPED])
def test_an_error_ends_blocked_or_failed_and_never_passing(
    error: DayzeroError, state: AdaptationState, code: ExitCode, tmp_path: Path
) -> None:
    made = make_bench(tmp_path)
    prestaging.coverage(made.bench, made.lease)
    outcome = stop(made.bench, made.catalog, made.lease, error)  # type: ignore[arg-type]  # finish and clock are all it takes
    assert (outcome.adaptation.state, outcome.reason, outcome.error) == (state, str(error), error)
    assert exit_code_of_outcome(outcome) is code
    (entry,) = made.catalog.entries
    assert entry is not None
    assert (entry.lifecycle, entry.correctness) == (Lifecycle.BLOCKED, Correctness.UNKNOWN)
    assert entry.reason == f"blocked: {error}"
    assert [check.verdict for check in entry.checks] == [Verdict.PASS], "what was found before is still said"
    assert adapt_document(outcome)["reason"] == str(error)
    assert len(entry_rows(entry)) == 1


def test_an_attempt_that_ran_nothing_is_done_and_unknown(tmp_path: Path) -> None:
    made = make_bench(tmp_path)
    outcome = conclude(made.bench, made.catalog, made.lease)  # type: ignore[arg-type]
    assert outcome.adaptation.state is AdaptationState.DONE
    assert outcome.entry is not None and outcome.entry.correctness is Correctness.UNKNOWN
    assert "end_to_end.generation or end_to_end.embedding" in outcome.entry.missing_checks
    assert exit_code_of_outcome(outcome) is ExitCode.NOT_MEASURED


def test_a_prestage_ends_staged_with_a_prediction(tmp_path: Path) -> None:
    made = make_bench(tmp_path, weights=None, purpose=Purpose.PRESTAGE)
    prestaging.coverage(made.bench, made.lease)
    planning.first_plan(made.bench, made.lease)
    outcome = conclude(made.bench, made.catalog, made.lease)  # type: ignore[arg-type]
    assert outcome.entry is not None
    assert (outcome.entry.lifecycle, outcome.entry.correctness) == (Lifecycle.STAGED, Correctness.UNKNOWN)
    assert outcome.entry.key.dtype == "bfloat16"


IMAGES = [
    (FakeImages(), Verdict.PASS, "sha256:"),
    (FakeImages(failing=UnavailableError("no container engine answers.")), Verdict.NOT_RUN, "no container engine answers"),
    (FakeImages(failing=MeasurementError("step 3 of the build failed.")), Verdict.ERROR, "step 3 of the build failed"),
]


@pytest.mark.parametrize(("images", "verdict", "says"), IMAGES, ids=[row[1].value for row in IMAGES])
def test_an_image_is_built_missing_or_broken_and_says_so(
    images: FakeImages, verdict: Verdict, says: str, tmp_path: Path
) -> None:
    made = make_bench(tmp_path, images=images)
    weights.exact_plan(made.bench, made.lease)
    report = publishing.image_step(made.bench, made.lease)
    (check,) = made.ledger.checks("adaptation-1")
    assert (check.check, check.verdict) == ("image.build", verdict)
    assert says in check.reason and says in report.headline
    assert images.built and "Dockerfile" in images.built[-1]


def test_equal_bundles_are_one_artifact(tmp_path: Path) -> None:
    made = make_bench(tmp_path)
    weights.exact_plan(made.bench, made.lease)
    first = publishing.bundle(made.bench, made.lease, publishing.bundle_files(made.bench, made.lease))
    files = publishing.bundle_files(made.bench, made.lease)
    again = publishing.bundle(made.bench, made.lease, files)
    assert (first.noun, first.reused, again.reused) == (again.noun, False, True)
    assert {"plan.svg", "launch.json"} <= {file.path for file in files}
    assert publishing.archive(files) == publishing.archive(tuple(reversed(files)))
