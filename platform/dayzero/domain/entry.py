"""Compatibility entries: derived from verdicts, never typed by hand."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from dayzero.domain.ageing import Basis
from dayzero.domain.computing import Computing, computing_of
from dayzero.domain.failures import Symptom
from dayzero.domain.features import Feature, LayerVerdict
from dayzero.domain.planning import Degrees
from dayzero.domain.precision_policy import PrecisionPolicy
from dayzero.domain.verdict import Check, Culprit, Grade, Measurement, Mode
from dayzero.domain.waivers import Waiver


class Lifecycle(StrEnum):
    """How far the work on the entry has come."""

    PREDICTED = "predicted"
    STAGED = "staged"
    ADAPTING = "adapting"
    DONE = "done"
    BLOCKED = "blocked"


class Correctness(StrEnum):
    """What the verdicts say."""

    UNKNOWN = "unknown"
    FUNCTIONAL = "functional"
    VERIFIED = "verified"
    FAILING = "failing"


class Performance(StrEnum):
    """What was measured."""

    UNMEASURED = "unmeasured"
    MEASURED = "measured"
    MEETS_FLOOR = "meets_floor"


class Freshness(StrEnum):
    """Whether the entry still describes what is installed and published."""

    CURRENT = "current"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class EntryKey:
    """What an entry is about; one current entry per key. `content` is the release's content id (before weights: the
    configuration's); `dtype` says in what it computes, policy and cache included."""

    model: str
    content_id: str
    platform: str
    stack_fingerprint: str
    engine: str
    dtype: str
    plan: Degrees
    mode: Mode

    @property
    def computing(self) -> Computing:
        """What `dtype` says."""
        return computing_of(self.dtype)


@dataclass(frozen=True, slots=True)
class DayZeroClock:
    """When each thing happened; None where it has not (or nobody knows)."""

    announced_at: datetime | None = None
    config_seen_at: datetime | None = None
    weights_live_at: datetime | None = None
    detected_at: datetime | None = None
    staged_at: datetime | None = None
    first_token_at: datetime | None = None
    verified_at: datetime | None = None
    notified_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class CompatibilityEntry:
    """One entry: the four independent columns, with the evidence behind them."""

    key: EntryKey
    method: str
    lifecycle: Lifecycle
    correctness: Correctness
    performance: Performance
    freshness: Freshness
    grade: Grade
    reason: str
    checks: tuple[Check, ...]
    measurements: tuple[Measurement, ...] = ()
    culprits: tuple[Culprit, ...] = ()
    gaps: tuple[str, ...] = ()
    missing_checks: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    bundle: str | None = None
    sample_text: str | None = None
    clock: DayZeroClock = DayZeroClock()
    left: tuple[str, ...] = ()
    """What a pre-stage leaves for the day of the weights, a sentence each."""
    evidence: str = ""
    """What the grades of the deciding checks refer to, in a sentence; `grade` is the weakest of them."""
    waivers: tuple[Waiver, ...] = ()
    """Those by which a failing check does not make the entry failing; with any of them it is never verified."""
    waived_until: datetime | None = None
    """When the first of them expires: from then on the entry is stale."""
    layers: tuple[LayerVerdict, ...] = ()
    """The four layers in a line each; none in entries of older versions."""
    features: tuple[Feature, ...] = ()
    """What was tried of dtypes, parallelism, context, caches, fine-tuning and engines, each with its verdict."""
    failures: tuple[Symptom, ...] = ()
    """What it met: gaps, culprits, and checks that fail or err."""
    foretold: tuple[str, ...] = ()
    """Known failures of the platform that it is expected to meet, a sentence each; predicted, and no verdict follows."""
    basis: Basis | None = None
    """What it rests on beside its content and method; None where an older version derived it."""
    policy: PrecisionPolicy | None = None
    """By which precisions its targets computed; None: all modules in the native one. The key's dtype names the scheme."""

    @property
    def verified(self) -> bool:
        """Verified in words: correctness verified and freshness current."""
        return self.correctness is Correctness.VERIFIED and self.freshness is Freshness.CURRENT
