"""Verdict on the whole model: perplexity."""

import math

from dayzero.domain.observations import CheckName, PerplexityObserved
from dayzero.domain.verdict import Check, CheckLayer, Grade, Measurement, Verdict
from dayzero.stages.judging.sources import taken_from
from dayzero.stages.precision import limits as precision

Z_95 = 1.96
"""Two-sided 95 % interval of a mean of paired differences, by the normal approximation (n is above 30 here)."""
FEWEST_TOKENS = 16


def perplexity_check(
    observed: PerplexityObserved, rung: str, evidence: tuple[str, ...] = ()
) -> tuple[Check, tuple[Measurement, ...]]:
    """The target's divergence from the higher precision against the native dtype's, and its paired loss of likelihood."""
    tolerance = precision.FACTOR_MEAN * max(observed.kl_native or 0.0, precision.KL[observed.native_dtype])
    verdict, reason = _perplexity_verdict(observed, tolerance)
    low, high = perplexity_interval(observed)
    check = Check(
        CheckLayer.PRECISION,
        CheckName.MODEL_PERPLEXITY.value,
        rung,
        verdict,
        Grade.MEASURED,
        reason,
        measured=observed.kl_target,
        tolerance=tolerance,
        unit="nats a token (KL from the higher precision)",
        n=observed.tokens,
        evidence=evidence,
        numbers={
            "perplexity_target": _exp(observed.nll_target),
            "perplexity_low": low,
            "perplexity_high": high,
            "perplexity_native": _exp(observed.nll_native),
            "perplexity_reference": _exp(observed.nll_reference),
            "difference_nats": observed.difference_mean,
            "difference_standard_error": observed.difference_standard_error,
            "top1_agreement": observed.top1_agreement,
            "text": observed.text,
            "tokens_from": observed.token_source,
            "target_path": observed.target_path,
            **taken_from(observed.source, observed.baseline),
        },
    )
    value = _exp(observed.nll_target)
    conditions: dict[str, int | float | str] = {
        "text": observed.text,
        "tokens": observed.tokens,
        "dtype": observed.native_dtype,
        **({"low_95": low, "high_95": high} if low is not None and high is not None else {}),
    }
    return check, () if value is None else (Measurement("perplexity", value, "1", conditions, observed.tokens),)


def _perplexity_verdict(observed: PerplexityObserved, tolerance: float) -> tuple[Verdict, str]:
    if observed.tokens < FEWEST_TOKENS:
        return Verdict.ERROR, f"{observed.tokens} tokens are too few, at least {FEWEST_TOKENS}"
    if observed.nll_reference is None or observed.nll_native is None or observed.kl_native is None:
        return Verdict.ERROR, "the reference's own likelihoods are not finite"
    if observed.identical:
        return Verdict.NOT_RUN, "the target ran the reference's own path: equal logits bit for bit say nothing"
    if observed.nll_target is None or observed.kl_target is None or observed.difference_mean is None:
        return Verdict.FAIL, "the target's likelihoods are not finite"
    if observed.kl_target > tolerance:
        return Verdict.FAIL, f"the target diverges by {observed.kl_target:.3g} nats a token, tolerance {tolerance:.3g}"
    low = observed.difference_mean - Z_95 * (observed.difference_standard_error or 0.0)
    if low > tolerance:
        return Verdict.FAIL, f"the target loses at least {low:.3g} nats a token against {observed.native_dtype}"
    sentence = f"perplexity {math.exp(observed.nll_target):.2f} on the target, {math.exp(observed.nll_native):.2f} in "
    return (
        Verdict.PASS,
        f"{sentence}{observed.native_dtype}, {math.exp(observed.nll_reference):.2f} in {observed.reference_dtype}",
    )


def perplexity_interval(observed: PerplexityObserved) -> tuple[float | None, float | None]:
    """The 95 % interval of the target's perplexity over its tokens, taken as independent; None where it is not known."""
    if observed.nll_target is None or observed.nll_standard_error is None:
        return None, None
    half = Z_95 * observed.nll_standard_error
    return _exp(observed.nll_target - half), _exp(observed.nll_target + half)


def _exp(nll: float | None) -> float | None:
    return math.exp(nll) if nll is not None and nll < 700 else None
