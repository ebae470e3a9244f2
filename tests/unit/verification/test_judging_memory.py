"""The memory model against measured ranks: verdicts and errors from numbers, unknown where nothing was measured."""

from dataclasses import replace

import pytest

from checkpoints import DEEPSEEK, SMOLLM2, spec_for
from dayzero.codec import dump, load
from dayzero.domain.observations import MemoryObserved, RankMemory
from dayzero.domain.planning import Degrees
from dayzero.domain.platforms import PlatformProfile
from dayzero.domain.runs import Observation, RunEnd, RunOutcome, RunRequest
from dayzero.domain.verdict import Check, CheckLayer, Grade, Mode, Verdict
from dayzero.stages.entries.deciding import counts
from dayzero.stages.judging.checks import judge
from dayzero.stages.judging.memory import TOLERANCE, memory_check, predicted_memory
from dayzero.stages.memory.error import ERROR, error_words, memory_error

CPU = PlatformProfile("cpu", "CPU", "cpu")
GIB = 2**30
OBSERVED = MemoryObserved(Degrees(), "bfloat16", "sdpa", 100, 4, (RankMemory(0, 5, GIB, 1000, GIB, GIB + 2000),))
PREDICTED = ({"weights": GIB, "state": 800, "state_beyond": 200, "activations": 1000},)


def observed(**changes: object) -> MemoryObserved:
    return replace(OBSERVED, ranks=tuple(replace(rank, **changes) for rank in OBSERVED.ranks))


def test_a_prediction_within_the_tolerance_passes_and_its_errors_are_measured() -> None:
    check, measurements = memory_check(OBSERVED, PREDICTED, "tp1", ("sha",))
    assert check.verdict is Verdict.PASS and check.n == 1 and check.evidence == ("sha",)
    assert {one.conditions["item"]: one.value for one in measurements} == {"peak": 0.0, "weights": 0.0, "state": 0.0}
    assert {one.name for one in measurements} == {ERROR}
    assert check.numbers["predicted_state_bytes"] == 800 and check.numbers["measured_state_bytes"] == 1000


@pytest.mark.parametrize(("share", "verdict"), [(1 + TOLERANCE - 0.01, Verdict.PASS), (1.2, Verdict.FAIL), (0.8, Verdict.FAIL)])
def test_a_prediction_off_by_more_fails_with_both_figures(share: float, verdict: Verdict) -> None:
    check, _ = memory_check(observed(peak_bytes=int(sum(PREDICTED[0].values()) / share)), PREDICTED, "tp1")
    assert check.verdict is verdict
    assert f"{sum(PREDICTED[0].values()):,}" in check.reason


def test_the_worst_rank_decides() -> None:
    two = replace(OBSERVED, ranks=(OBSERVED.ranks[0], replace(OBSERVED.ranks[0], rank=1, peak_bytes=2 * GIB)))
    check, measurements = memory_check(two, PREDICTED * 2, "tp2")
    assert check.verdict is Verdict.FAIL and check.numbers["rank"] == 1
    assert len(measurements) == 6


def test_what_cannot_be_judged_is_not_judged() -> None:
    small = memory_check(observed(peak_bytes=10_000_000), ({"weights": 1000, "activations": 5},), "tp1")[0]
    blurred = memory_check(observed(exact=False), PREDICTED, "tp1")[0]
    weights = memory_check(OBSERVED, ({"weights": GIB},), "tp1")[0]
    none = memory_check(replace(OBSERVED, ranks=()), (), "tp1")[0]
    assert [one.verdict for one in (small, blurred, weights, none)] == [
        Verdict.NOT_RUN, Verdict.ERROR, Verdict.NOT_RUN, Verdict.NOT_RUN]  # fmt: skip
    assert "cannot tell the peak" in blurred.reason and "only weights" in weights.reason


def test_a_run_that_did_not_complete_is_an_error() -> None:
    outcome = RunOutcome(RunEnd.TIMED_OUT, b"", "took too long", "", 1.0, None)
    (check,) = judge(RunRequest(Observation.MEMORY, "cpu"), outcome, load).checks
    assert (check.check, check.verdict) == ("memory.model", Verdict.ERROR)
    assert load(MemoryObserved, dump(OBSERVED)) == OBSERVED


def test_the_run_is_predicted_as_it_was_made() -> None:
    spec = spec_for(SMOLLM2)
    (alone,) = predicted_memory(spec, CPU, OBSERVED, (1000,))
    # Three heads × 8 × keys and values × 2 bytes × 3 layers × 104 tokens.
    assert alone["weights"] == 1000 and alone["state"] == 3 * 8 * 2 * 2 * 3 * 104
    (wide,) = predicted_memory(spec, CPU, replace(OBSERVED, dtype="float32"), (1000,))
    assert wide["state"] == 2 * alone["state"]
    (eager,) = predicted_memory(spec, CPU, replace(OBSERVED, attention="eager"), (1000,))
    assert eager["activations"] > alone["activations"]
    both = predicted_memory(spec_for(DEEPSEEK), CPU, replace(OBSERVED, degrees=Degrees(tp=2)), (600, 500))
    assert [items["weights"] for items in both] == [600, 500]
    assert not any(name.startswith("host_") for items in both for name in items)


def test_the_error_of_a_platform_is_unknown_where_nothing_was_measured() -> None:
    assert memory_error(()) is None and error_words(None).startswith("unknown")
    _, first = memory_check(observed(peak_bytes=int(sum(PREDICTED[0].values()) / 0.9)), PREDICTED, "tp1")
    _, second = memory_check(OBSERVED, PREDICTED, "tp1")
    error = memory_error((*first, *second))
    assert error is not None and error.n == 2
    assert error.median == pytest.approx(0.05, abs=1e-6) and error.worst == pytest.approx(-0.1, abs=1e-6)
    assert error_words(error) == "median 5.0%, worst -10.0% over 2 measured ranks"


def test_a_wrong_prediction_says_nothing_against_the_model() -> None:
    wrong = Check(CheckLayer.MEMORY_PARALLELISM, "memory.model", "tp1", Verdict.FAIL, Grade.MEASURED, "off")
    assert not counts(wrong, Mode.INFERENCE) and counts(replace(wrong, check="memory.peak"), Mode.INFERENCE)
