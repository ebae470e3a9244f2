"""Verdicts on quantized caches and on the largest logits, on both sides of each limit."""

from dataclasses import replace

import pytest

from dayzero.codec import dump, load
from dayzero.domain.observations import PerplexityObserved
from dayzero.domain.observed_caches import CacheFormatError, CachesObserved
from dayzero.domain.observed_logits import LogitAgreement
from dayzero.domain.runs import Observation, RunEnd, RunOutcome, RunRequest
from dayzero.domain.verdict import Verdict
from dayzero.stages.judging.checks import Judged, judge
from dayzero.stages.precision.caches import CACHE_DIFFERENCE, CACHE_KL

GOOD = CacheFormatError("int8/head", 124, 0.002, 0.0005, 0.001, 0.004, 0.99, 0.97, 0.1, 0.0, 0.01, False)
OBSERVED = CachesObserved("bfloat16", "eager", "alice.txt", "tok", 4, 32, 6, (GOOD,), 3.0)
NEAR = LogitAgreement(5, 0.005, 0.004, 0.98, 0.99)
PERPLEXITY = PerplexityObserved(
    "t", "tok", 285, "bfloat16", "float32", "compiled", 3.0, 3.01, 3.01, 0.0, 0.01, 0.001, 0.001, 0.99, False,
    nll_standard_error=0.1, agreement=(NEAR,),
)  # fmt: skip


def judged(observation: Observation, noun: object) -> Judged:
    outcome = RunOutcome(RunEnd.COMPLETED, dump(noun), "", "", 1.0, None)
    return judge(RunRequest(observation, "cpu"), outcome, load)


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({}, Verdict.PASS),
        ({"kl": CACHE_KL + 0.01, "kl_standard_error": 0.001}, Verdict.FAIL),
        ({"kl": CACHE_KL + 0.01, "kl_standard_error": 0.02}, Verdict.ERROR),
        ({"kl": CACHE_KL - 0.001, "kl_standard_error": 0.001}, Verdict.ERROR),
        ({"kl_standard_error": None}, Verdict.ERROR),
        ({"difference": CACHE_DIFFERENCE + 0.01, "difference_standard_error": 0.001}, Verdict.FAIL),
        ({"difference": CACHE_DIFFERENCE + 0.01, "difference_standard_error": 0.01}, Verdict.PASS),
        ({"kl": None}, Verdict.FAIL),
        ({"readback_error": 0.07}, Verdict.FAIL),
        ({"readback_error": None}, Verdict.FAIL),
        ({"identical": True}, Verdict.NOT_RUN),
        ({"tokens": 31}, Verdict.ERROR),
    ],
)
def test_each_limit_of_a_cache_decides(changed: dict[str, object], verdict: Verdict) -> None:
    found = replace(GOOD, **changed)  # type: ignore[arg-type]
    checks = {check.check: check for check in judged(Observation.CACHES, replace(OBSERVED, formats=(found,))).checks}
    assert checks["cache.int8_head"].verdict is verdict
    assert checks["cache.fp8_e4m3_head"].verdict is Verdict.NOT_RUN


def test_a_model_without_an_ordinary_cache_says_why() -> None:
    result = judged(Observation.CACHES, replace(OBSERVED, formats=(), unable="it keeps a recurrent state", nll_native=None))
    assert {check.verdict for check in result.checks} == {Verdict.NOT_RUN}
    assert all("recurrent state" in check.reason for check in result.checks)


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({}, Verdict.PASS),
        ({"error_target": 0.0111}, Verdict.FAIL),
        ({"error_target": 0.0111, "error_native": 0.006}, Verdict.PASS),
        ({"error_target": None}, Verdict.FAIL),
        ({"error_native": None}, Verdict.ERROR),
    ],
)
def test_the_largest_logits(changed: dict[str, object], verdict: Verdict) -> None:
    noun = replace(PERPLEXITY, agreement=(replace(NEAR, **changed),))  # type: ignore[arg-type]
    assert judged(Observation.PERPLEXITY, noun).checks[1].verdict is verdict


def test_logits_that_were_not_compared_or_are_the_references_say_nothing() -> None:
    for noun in (replace(PERPLEXITY, agreement=()), replace(PERPLEXITY, identical=True)):
        assert judged(Observation.PERPLEXITY, noun).checks[1].verdict is Verdict.NOT_RUN


def test_perplexity_has_its_interval() -> None:
    check = judged(Observation.PERPLEXITY, PERPLEXITY).checks[0]
    low, high = check.numbers["perplexity_low"], check.numbers["perplexity_high"]
    assert isinstance(low, float) and isinstance(high, float)
    assert (round(low, 2), round(high, 2)) == (16.68, 24.68)
