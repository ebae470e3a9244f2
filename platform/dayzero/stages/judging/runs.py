"""Verdicts on generation from text to text, and on the memory it took."""

from dayzero.domain.observations import CheckName, GenerationObserved
from dayzero.domain.runs import RunLimits
from dayzero.domain.verdict import Check, CheckLayer, Grade, Measurement, Verdict
from dayzero.stages.precision import limits as precision


def generation_check(observed: GenerationObserved, rung: str, evidence: tuple[str, ...] = ()) -> Check:
    """A prompt went in and a completion came out, with finite logits all the way."""
    if observed.nonfinite_logits:
        verdict, reason = Verdict.FAIL, f"{observed.nonfinite_logits} logits are NaN or infinite"
    elif observed.new_tokens < 1 or not observed.text.strip():
        verdict, reason = Verdict.FAIL, f"{observed.new_tokens} tokens came out, and no text"
    else:
        verdict, reason = Verdict.PASS, f"{observed.new_tokens} tokens came out, with {observed.tokenizer}"
    return Check(
        CheckLayer.END_TO_END,
        CheckName.GENERATION.value,
        rung,
        verdict,
        Grade.MEASURED,
        reason,
        measured=float(observed.new_tokens),
        tolerance=1.0,
        unit="tokens, at least",
        n=observed.new_tokens,
        evidence=evidence,
        numbers={
            "prompt_tokens": observed.prompt_tokens,
            "ttft_s": observed.ttft_s,
            "tpot_median_s": observed.tpot_median_s,
            "throughput_tokens_per_s": observed.throughput_tokens_per_s,
            "target_path": observed.target_path,
            "tokens_from": observed.tokenizer,
        },
    )


def reference_text_check(observed: GenerationObserved, rung: str, evidence: tuple[str, ...] = ()) -> Check:
    """The target's greedy tokens are the reference's, up to a position where the reference itself is undecided."""
    noise = precision.FACTOR_MEAN * (observed.native_noise or 0.0)
    if observed.target_path == observed.reference_path:
        verdict, reason = Verdict.NOT_RUN, "the target ran the reference's own path"
    elif observed.new_tokens < 1:
        verdict, reason = Verdict.ERROR, "no token came out to be compared"
    elif observed.first_divergence is None:
        verdict, reason = Verdict.PASS, f"all {observed.new_tokens} greedy tokens are the reference's"
    elif observed.divergence_margin is None or observed.native_noise is None:
        verdict, reason = Verdict.ERROR, "the reference's logits are not finite where the texts part"
    else:
        where = f"token {observed.first_divergence}: {observed.target_token!r} for {observed.reference_token!r}"
        margin = f"the reference prefers its own by {observed.divergence_margin:.3g}, its noise there is {noise:.3g}"
        within = observed.divergence_margin <= noise
        verdict = Verdict.PASS if within else Verdict.FAIL
        reason = f"the texts part at {where}; {margin}"
    return Check(
        CheckLayer.END_TO_END,
        CheckName.REFERENCE_TEXT.value,
        rung,
        verdict,
        Grade.MEASURED,
        reason,
        measured=observed.divergence_margin,
        tolerance=None if observed.native_noise is None else noise,
        unit="logits",
        n=observed.new_tokens,
        evidence=evidence,
        numbers={"first_divergence": observed.first_divergence, "reference_path": observed.reference_path},
    )


def peak_check(peak_bytes: int, limits: RunLimits | None, rung: str, evidence: tuple[str, ...] = ()) -> Check:
    """Peak resident memory of the run against its limit; without a limit there is nothing to judge it by."""
    limit = limits.memory_bytes if limits else None
    if limit is None:
        verdict, reason = Verdict.NOT_RUN, f"peak {peak_bytes:,} bytes; no memory limit is known to judge it by"
    elif peak_bytes <= limit:
        verdict, reason = Verdict.PASS, f"peak {peak_bytes:,} of {limit:,} bytes"
    else:
        verdict, reason = Verdict.FAIL, f"peak {peak_bytes:,} bytes is above the limit of {limit:,}"
    return Check(
        CheckLayer.MEMORY_PARALLELISM,
        CheckName.MEMORY_PEAK.value,
        rung,
        verdict,
        Grade.MEASURED,
        reason,
        measured=float(peak_bytes),
        tolerance=None if limit is None else float(limit),
        unit="bytes",
        n=1,
        evidence=evidence,
    )


def device_peak_check(observed: GenerationObserved, rung: str, evidence: tuple[str, ...] = ()) -> Check | None:
    """The peak of a device's own memory, by its own count; None where the run was on the host."""
    if observed.device_peak_bytes is None:
        return None
    limits = None if observed.device_limit_bytes is None else RunLimits(0.0, observed.device_limit_bytes)
    return peak_check(observed.device_peak_bytes, limits, rung, evidence)


def generation_measurements(observed: GenerationObserved, peak_bytes: int, rung: str) -> tuple[Measurement, ...]:
    """What was timed and weighed; absent where nothing was measured."""
    conditions: dict[str, int | float | str] = {
        "plan": rung,
        "prompt_tokens": observed.prompt_tokens,
        "new_tokens": observed.new_tokens,
        "dtype": observed.native_dtype,
        "path": observed.target_path,
    }
    rows: tuple[tuple[str, float | None, str, int], ...] = (
        ("ttft", observed.ttft_s, "s", 1),
        ("tpot", observed.tpot_median_s, "s", max(observed.new_tokens - 1, 1)),
        ("throughput", observed.throughput_tokens_per_s, "tokens/s", max(observed.new_tokens, 1)),
        ("load", observed.load_s, "s", 1),
        ("peak_memory", float(peak_bytes), "bytes", 1),
    )
    return tuple(Measurement(name, value, unit, conditions, n) for name, value, unit, n in rows if value is not None)
