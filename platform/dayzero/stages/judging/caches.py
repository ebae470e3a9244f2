"""Verdicts on quantized caches, and on the largest logits.

A format passes when the whole interval of its divergence from the native cache is within the limit; when the limit lies inside
the interval, this n cannot tell and it is an error, never a pass.
"""

from dayzero.domain.observations import CheckName, PerplexityObserved
from dayzero.domain.observed_caches import CacheFormatError, CachesObserved
from dayzero.domain.verdict import Check, CheckLayer, Grade, Measurement, Verdict
from dayzero.stages.precision import caches as limits

NAMES = {
    "fp8_e4m3/tensor": CheckName.CACHE_FP8_TENSOR,
    "fp8_e4m3/head": CheckName.CACHE_FP8_HEAD,
    "int8/head": CheckName.CACHE_INT8_HEAD,
}
"""The check of each format."""
FEWEST_TOKENS = 32


def cache_checks(
    observed: CachesObserved, rung: str, evidence: tuple[str, ...] = ()
) -> tuple[tuple[Check, ...], tuple[Measurement, ...]]:
    """One check a format; not_run, with the reason, for a model without an ordinary cache."""
    found = {one.format: one for one in observed.formats}
    checks = tuple(_check(observed, found.get(kind), name, rung, evidence) for kind, name in NAMES.items())
    conditions: dict[str, int | float | str] = {"text": observed.text, "dtype": observed.native_dtype}
    return checks, tuple(
        Measurement(name, value, "nats a token", {**conditions, "cache": one.format}, one.tokens)
        for one in observed.formats
        for name, value in (("cache_divergence", one.kl), ("cache_likelihood_loss", one.difference))
        if value is not None
    )


def _check(
    observed: CachesObserved, found: CacheFormatError | None, name: CheckName, rung: str, evidence: tuple[str, ...]
) -> Check:
    if found is None:
        reason = f"no ordinary cache: {observed.unable}" if observed.unable else "this format was not observed"
        return Check(CheckLayer.PRECISION, name.value, rung, Verdict.NOT_RUN, Grade.MEASURED, reason, evidence=evidence)
    verdict, reason = _verdict(found)
    return Check(
        CheckLayer.PRECISION,
        name.value,
        rung,
        verdict,
        Grade.MEASURED,
        f"{reason}; {observed.note}" if observed.note else reason,
        measured=found.kl,
        tolerance=limits.CACHE_KL,
        unit="nats a token (KL from the native cache)",
        n=found.tokens,
        evidence=evidence,
        numbers={
            "kl_standard_error": found.kl_standard_error,
            "difference_nats": found.difference,
            "difference_standard_error": found.difference_standard_error,
            "difference_limit": limits.CACHE_DIFFERENCE,
            "top1_agreement": found.top1_agreement,
            "top5_agreement": found.top5_agreement,
            "largest_scale": found.largest_scale,
            "clipped_share": found.clipped_share,
            "readback_error": found.readback_error,
            "cached_layers": observed.cached_layers,
            "prefill_tokens": observed.prefill_tokens,
            "text": observed.text,
            "target_path": observed.target_path,
        },
    )


def _verdict(found: CacheFormatError) -> tuple[Verdict, str]:
    if found.kl is None or found.difference is None:
        return Verdict.FAIL, "logits with this cache are not finite"
    if found.identical:
        return Verdict.NOT_RUN, "its logits equal the native cache's bit for bit: nothing was quantized"
    if found.readback_error is None or found.readback_error > limits.READBACK:
        error = "not finite" if found.readback_error is None else f"off by {found.readback_error:.3g}"
        return Verdict.FAIL, (
            f"what the cache gives back is not what was written: {error}, at most {limits.READBACK:g}; its scale is not applied"
            f" or does not fit ({found.clipped_share:.2%} beyond it)"
        )
    if found.tokens < FEWEST_TOKENS:
        return Verdict.ERROR, f"{found.tokens} tokens are too few, at least {FEWEST_TOKENS}"
    kl = limits.interval(found.kl, found.kl_standard_error)
    loss = limits.interval(found.difference, found.difference_standard_error)
    said = (
        f"KL {kl.mean:.3g} nats a token [{kl.low:.3g}, {kl.high:.3g}] from the native cache, likelihood {loss.mean:+.3g} "
        f"[{loss.low:.3g}, {loss.high:.3g}], n={found.tokens}"
    )
    if kl.against(limits.CACHE_KL) is limits.Bound.BEYOND:
        return Verdict.FAIL, f"{said}: more than {limits.CACHE_KL:g} of divergence"
    if loss.against(limits.CACHE_DIFFERENCE) is limits.Bound.BEYOND:
        return Verdict.FAIL, f"{said}: more than {limits.CACHE_DIFFERENCE:g} of likelihood is lost"
    if kl.against(limits.CACHE_KL) is limits.Bound.OPEN:
        return Verdict.ERROR, f"{said}: this n cannot tell it from the limit {limits.CACHE_KL:g}"
    return Verdict.PASS, f"{said}; the same likeliest token at {found.top1_agreement:.1%}"


def logits_check(observed: PerplexityObserved, rung: str, evidence: tuple[str, ...] = ()) -> Check:
    """The largest logits of the target against the higher precision's; the worst k by its own tolerance is shown."""
    lines = [(one, limits.logits_line(one)) for one in observed.agreement]
    verdict, reason = Verdict.PASS, ""
    if not lines:
        verdict, reason = Verdict.NOT_RUN, "no largest logits were compared"
    elif any(one.error_native is None for one, _line in lines):
        verdict, reason = Verdict.ERROR, "the reference's own largest logits are not finite"
    elif observed.identical:
        verdict, reason = Verdict.NOT_RUN, "the target ran the reference's own path: equal logits bit for bit say nothing"
    elif wrong := [line.why for _one, line in lines if line.stands_out]:
        verdict, reason = Verdict.FAIL, "; ".join(wrong)
    worst = max(lines, default=None, key=lambda pair: (pair[1].measured or float("inf")) / pair[1].tolerance)
    measured = worst[1] if worst else None
    if verdict is Verdict.PASS and measured:
        reason = measured.why
    return Check(
        CheckLayer.PRECISION,
        CheckName.MODEL_LOGITS.value,
        rung,
        verdict,
        Grade.MEASURED,
        reason,
        measured=measured.measured if measured else None,
        tolerance=measured.tolerance if measured else None,
        unit="relative error of the largest logits",
        n=observed.tokens,
        evidence=evidence,
        numbers={
            name: value
            for one in observed.agreement
            for name, value in (
                (f"top{one.k}_error", one.error_target),
                (f"top{one.k}_error_native", one.error_native),
                (f"top{one.k}_overlap", one.overlap_target),
                (f"top{one.k}_overlap_native", one.overlap_native),
            )
        },
    )
