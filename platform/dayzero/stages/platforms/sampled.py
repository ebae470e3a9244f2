"""What models' own calls showed of a stack's operators, kept in its measured manifest."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from dayzero.domain.canonical import digest
from dayzero.domain.operators import OperatorManifest, OperatorSupport
from dayzero.domain.platforms import PlatformProfile, Stack
from dayzero.domain.sampling import CallFact
from dayzero.domain.verdict import Grade, Verdict

SAMPLES_VERSION = 1
"""Version of the distributions, of what is compared and of how it is judged; a change of any is a new one."""


def samples_key(profile: PlatformProfile, stack: Stack) -> str:
    """What samples depend on beside the call itself: the platform's figures, the stack, the method."""
    return digest((SAMPLES_VERSION, profile.figures_digest, stack.components))


def known_calls(manifest: OperatorManifest, under: str) -> tuple[CallFact, ...]:
    """The calls that need not be run again; none where the samples were taken under another key."""
    return manifest.sampled if manifest.sampled_under == under else ()


def with_samples(manifest: OperatorManifest, facts: Iterable[CallFact], under: str) -> OperatorManifest:
    """The manifest with these facts beside those that it has under the same key; the first word on a call stays.

    Grade measured for every operator that ran. Facts of another key are let go: they are about another platform.
    """
    kept = {fact.key: fact for fact in known_calls(manifest, under)}
    for fact in facts:
        kept.setdefault(fact.key, fact)
    ran = {fact.operator for fact in kept.values() if fact.samples}
    told = as_told(manifest)
    operators = tuple(replace(support, grade=Grade.MEASURED) if support.name in ran else support for support in told.operators)
    ordered = tuple(kept[key] for key in sorted(kept))
    return replace(told, operators=operators, sampled=ordered, sampled_under=under)


def as_told(manifest: OperatorManifest) -> OperatorManifest:
    """The manifest before any model's calls were run. Coverage is keyed by it, or each model would change the next one's."""
    if not manifest.sampled_under:
        return manifest
    operators = tuple(_as_told(support) for support in manifest.operators)
    return replace(manifest, operators=operators, sampled=(), sampled_under="")


def _as_told(support: OperatorSupport) -> OperatorSupport:
    probed = any(fact.time_s is not None for fact in support.facts)
    return support if probed or support.grade is not Grade.MEASURED else replace(support, grade=Grade.DECLARED)


def samples_of(manifest: OperatorManifest) -> dict[str, int]:
    """How many calls ran on drawn inputs, by what became of them."""
    words = {Verdict.PASS: "as close as the host's", Verdict.FAIL: "further from float64 than the host's"}
    counts = Counter(
        words.get(fact.verdict) or ("equal to the host's" if fact.identical else "not comparable") for fact in manifest.sampled
    )
    return dict(sorted(counts.items()))


def carried(told: OperatorManifest, before: OperatorManifest | None) -> OperatorManifest:
    """What a stack tells anew, with the samples that its manifest held before."""
    if before is None or not before.sampled_under or told.sampled_under:
        return told
    return with_samples(told, before.sampled, before.sampled_under)
