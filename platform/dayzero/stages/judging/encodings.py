"""Verdicts on embeddings: close to the higher precision, in the same order, and made of real text."""

from dayzero.domain.evaluation import FindingOutcome
from dayzero.domain.observations import CheckName
from dayzero.domain.observed_encoding import EncodingObserved
from dayzero.domain.verdict import Check, CheckLayer, Grade, Measurement, Verdict
from dayzero.stages.evaluation.paired import compare
from dayzero.stages.precision import limits as precision

BOTH_SIMILARITIES = 2.0
"""An order is a difference of two similarities, and each may be off."""
SAME = 1.0 - 1e-6
"""Similarity above which two different texts have one embedding: such a model tells no texts apart."""


def embeddings_check(observed: EncodingObserved, rung: str, evidence: tuple[str, ...] = ()) -> Check:
    """The model-level check of a model without a language head, in place of perplexity."""
    line = precision.mean_line(observed.target, observed.native, observed.native_dtype)
    verdict, reason = _embeddings_verdict(observed, line)
    nearest = observed.nearest
    return Check(
        CheckLayer.PRECISION,
        CheckName.MODEL_EMBEDDINGS.value,
        rung,
        verdict,
        Grade.MEASURED,
        reason,
        measured=line.measured,
        tolerance=line.tolerance,
        unit="relative error of pooled embeddings",
        n=observed.texts,
        evidence=evidence,
        numbers={
            "cosine_target": observed.target.cosine,
            "cosine_native": observed.native.cosine,
            "native_error": observed.native.rms_relative,
            "nearest_right_target": nearest.target_right,
            "nearest_right_native": nearest.reference_right,
            "anchors": nearest.n,
            "orders": observed.orders,
            "reversed_orders": observed.reversed_orders,
            "similarity_noise": observed.similarity_noise,
            "pooling": f"{observed.pooling} ({observed.pooling_source})",
            "target_path": observed.target_path,
        },
    )


def _embeddings_verdict(observed: EncodingObserved, line: precision.Line) -> tuple[Verdict, str]:
    least = precision.COSINE[observed.native_dtype]
    native, target = observed.native, observed.target
    if native.nonfinite or native.cosine is None or observed.similarity_noise is None:
        return Verdict.ERROR, "the reference's own embeddings are not finite"
    if native.cosine < least:
        return Verdict.ERROR, f"the reference in {observed.native_dtype} is itself far off: cosine {native.cosine:.5f}"
    if observed.identical:
        return Verdict.NOT_RUN, "the target's embeddings are the reference's bit for bit: it ran the same path"
    if line.stands_out:
        return Verdict.FAIL, f"embeddings of {observed.texts} texts are off: {line.why}"
    if target.cosine is None or target.cosine < least:
        return Verdict.FAIL, f"an embedding points elsewhere: cosine {target.cosine}, at least {least}"
    floor = max(observed.similarity_noise, precision.RELATIVE_TOLERANCE[observed.native_dtype])
    allowed = precision.FACTOR_MEAN * BOTH_SIMILARITIES * floor
    wide = observed.exchanges[0] if observed.exchanges else None
    if wide is not None and wide.margin > allowed:
        return Verdict.FAIL, (
            f"for {wide.anchor!r} the target puts {wide.second!r} before {wide.first!r}, which the reference finds nearer by "
            f"{wide.margin:.3g}; {allowed:.3g} would be explained"
        )
    found = compare(observed.nearest)
    if found.outcome is FindingOutcome.FINDING:
        return Verdict.FAIL, f"the nearest of {observed.nearest.n} candidates: {found.reason}"
    return Verdict.PASS, (
        f"{observed.texts} texts: cosine to {observed.reference_dtype} at least {target.cosine:.7f}; the nearest paraphrase is "
        f"right for {observed.nearest.target_right} of {observed.nearest.n} anchors, {observed.nearest.reference_right} in the "
        f"reference; {observed.reversed_orders} of {observed.orders} orders differ, all within its error"
    )


def embedding_end_check(observed: EncodingObserved, rung: str, evidence: tuple[str, ...] = ()) -> Check:
    """Text went in and embeddings came out that tell texts apart."""
    if observed.target.nonfinite or observed.closest is None:
        verdict, reason = Verdict.FAIL, f"{observed.target.nonfinite} values are NaN or infinite"
    elif observed.texts < 1 or observed.width < 1:
        verdict, reason = Verdict.FAIL, "no embedding came out"
    elif observed.closest > SAME:
        verdict, reason = Verdict.FAIL, f"two different texts have one embedding (similarity {observed.closest:.8f})"
    elif observed.untokenized is not None:
        verdict = Verdict.NOT_RUN
        reason = f"{observed.untokenized}: text cannot go in; {observed.texts} sequences of bare tokens became embeddings"
    else:
        verdict = Verdict.PASS
        shown = ", ".join(f"{value:.4f}" for value in observed.sample)
        reason = f"{observed.texts} texts became embeddings of {observed.width} values, with {observed.tokenizer}: {shown}, …"
    return Check(
        CheckLayer.END_TO_END,
        CheckName.EMBEDDING.value,
        rung,
        verdict,
        Grade.MEASURED,
        reason,
        measured=observed.closest,
        tolerance=SAME,
        unit="largest similarity of two texts",
        n=observed.texts,
        evidence=evidence,
        numbers={
            "width": observed.width,
            "latency_s": observed.latency_s,
            "throughput_texts_per_s": observed.throughput_texts_per_s,
            "throughput_tokens_per_s": observed.throughput_tokens_per_s,
            "tokens_from": observed.tokenizer,
            "target_path": observed.target_path,
        },
    )


def encoding_measurements(observed: EncodingObserved, peak_bytes: int, rung: str) -> tuple[Measurement, ...]:
    """What was timed and weighed."""
    conditions: dict[str, int | float | str] = {
        "plan": rung,
        "texts": observed.texts,
        "tokens": observed.tokens,
        "dtype": observed.native_dtype,
        "path": observed.target_path,
    }
    rows = (
        ("latency", observed.latency_s, "s a text"),
        ("throughput", observed.throughput_tokens_per_s, "tokens/s"),
        ("throughput_texts", observed.throughput_texts_per_s, "texts/s"),
        ("load", observed.load_s, "s"),
        ("peak_memory", float(peak_bytes), "bytes"),
    )
    return tuple(Measurement(name, value, unit, conditions, observed.texts) for name, value, unit in rows)
