"""Verdicts on generation from text to text, and on the memory it took."""

import math

from dayzero.domain.observations import CheckName, Divergence, GenerationObserved
from dayzero.domain.runs import RunLimits
from dayzero.domain.verdict import Check, CheckLayer, Grade, Measurement, Verdict

BOTH_LOGITS = 2.0
"""A preference is a difference of two logits, and each may be off by the native error."""


def generation_check(observed: GenerationObserved, rung: str, evidence: tuple[str, ...] = ()) -> Check:
    """A prompt went in and a completion came out, with finite logits all the way."""
    if observed.nonfinite_logits:
        verdict, reason = Verdict.FAIL, f"{observed.nonfinite_logits} logits are NaN or infinite"
    elif observed.untokenized is not None:
        verdict = Verdict.NOT_RUN
        reason = f"{observed.untokenized}: text can neither go in nor come out; {observed.new_tokens} bare tokens came out"
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
    """Each of the target's greedy tokens is the reference's, given the same text so far, or one between which and its own the
    reference is undecided: it prefers its own by no more than both logits may be off, which is twice its native error there."""
    worst = max(observed.divergences, key=_beyond, default=None)
    verdict, reason = _text_verdict(observed, worst)
    return Check(
        CheckLayer.END_TO_END,
        CheckName.REFERENCE_TEXT.value,
        rung,
        verdict,
        Grade.MEASURED,
        reason,
        measured=worst.margin if worst else None,
        tolerance=None if worst is None or worst.noise is None else BOTH_LOGITS * worst.noise,
        unit="logits",
        n=observed.compared_tokens,
        evidence=evidence,
        numbers={
            "prompts": observed.prompts,
            "divergences": len(observed.divergences),
            "unexplained": sum(_beyond(one) > 0 for one in observed.divergences),
            "first_divergence": observed.first_divergence,
            "reference_path": observed.reference_path,
        },
    )


def _beyond(one: Divergence) -> float:
    """By how much the reference's preference exceeds what its own error explains; infinite where either is not finite."""
    if one.margin is None or one.noise is None:
        return math.inf
    return one.margin - BOTH_LOGITS * one.noise


def _text_verdict(observed: GenerationObserved, worst: Divergence | None) -> tuple[Verdict, str]:
    if observed.target_path == observed.reference_path:
        return Verdict.NOT_RUN, "the target ran the reference's own path"
    if observed.compared_tokens < 1:
        return Verdict.ERROR, "no token came out to be compared"
    of = f"{observed.compared_tokens} greedy tokens of {observed.prompts} prompts"
    if worst is None:
        return Verdict.PASS, f"all {of} are the reference's"
    if worst.margin is None or worst.noise is None:
        return Verdict.ERROR, f"the reference's logits are not finite at token {worst.position}, where the texts part"
    noise = BOTH_LOGITS * worst.noise
    if worst.margin > noise:
        count = sum(_beyond(one) > 0 for one in observed.divergences)
        return Verdict.FAIL, (
            f"at token {worst.position} of prompt {worst.prompt + 1} the target says {worst.target_token!r} for "
            f"{worst.reference_token!r}, which the reference prefers by {worst.margin:.3g}: its own error explains {noise:.3g} "
            f"({count} of {of})"
        )
    return Verdict.PASS, (
        f"{len(observed.divergences)} of {of} differ, each where the reference is undecided: at most it prefers its own by "
        f"{worst.margin:.3g}, and its own error explains {noise:.3g}"
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
