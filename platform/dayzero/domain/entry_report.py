"""What a page says of an entry or of a run: the verdicts, and the figures behind them as the evidence holds them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from dayzero.domain.entry import CompatibilityEntry
from dayzero.domain.verdict import CheckLayer, Grade, Measurement, Verdict

REPORT_SCHEMA = "dayzero.report/1"
DIFF_SCHEMA = "dayzero.report-diff/1"


@dataclass(frozen=True, slots=True)
class LayerFigures:
    """One layer three ways, relative to the higher precision: `own` and `native` given the reference's input, `inherited` what
    the target's output is off by on its own input. None: not finite, or not measured. `why` is the sentence of its line."""

    index: int
    module: str
    own: float | None
    native: float | None
    inherited: float | None
    tolerance: float
    stands_out: bool
    inherits: bool
    identical: bool
    tokens: int
    tokens_excluded: int
    why: str


@dataclass(frozen=True, slots=True)
class LayerSeries:
    """All layers of one check, in the model's order; `accused` are the layers that its culprits name."""

    check: str
    rung: str
    native_dtype: str
    reference_dtype: str
    target_path: str
    tokens: int
    layers: tuple[LayerFigures, ...]
    accused: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RankFigures:
    """Memory of one rank by item, predicted and measured (either may be unknown: empty), against its limit."""

    rank: int
    predicted_bytes: Mapping[str, int]
    measured_bytes: Mapping[str, int]
    limit_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class MemorySeries:
    """The ranks of one plan under one workload; `what` says which, in words."""

    what: str
    rung: str
    ranks: tuple[RankFigures, ...]


@dataclass(frozen=True, slots=True)
class OperatorFigures:
    """An operator on real inputs against float64, one of those that came nearest to their limit or beyond it."""

    operator: str
    dtypes: tuple[str, ...]
    module: str
    share_within: float | None
    rms_relative: float | None
    nonfinite: int
    n: int


@dataclass(frozen=True, slots=True)
class FingerprintFigures:
    """What sketches cost in a parallel run: tensors and bytes of the rank that took most of them, over these ranks."""

    rung: str
    ranks: int
    tensors: int
    rank_bytes: int
    tokens: int


@dataclass(frozen=True, slots=True)
class LayerVerdict:
    """One of the four layers of verification. `n` are the samples of its deciding check, `interval` what a sampled check of it
    states (empty: none does)."""

    layer: CheckLayer
    verdict: Verdict
    grade: Grade | None
    passed: int
    failed: int
    error: int
    not_run: int
    n: int | None
    deciding: str
    interval: str


@dataclass(frozen=True, slots=True)
class Feature:
    """A thing that somebody may want of the model, how far it was shown, and by which checks."""

    name: str
    value: str
    verdict: Verdict
    checks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeployFile:
    """A file of the bundle that a page shows, as text."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """An entry or a run with all that its page shows. `stack` are the packages it ran in (empty: nobody recorded them);
    `unread` says which evidence could not be read, and why; `entry_id` None: a run that no list holds."""

    entry: CompatibilityEntry
    entry_id: str | None = None
    recorded_at: datetime | None = None
    release: str | None = None
    stack: Mapping[str, str] = field(default_factory=dict)
    verdicts: tuple[LayerVerdict, ...] = ()
    features: tuple[Feature, ...] = ()
    layers: tuple[LayerSeries, ...] = ()
    memory: tuple[MemorySeries, ...] = ()
    operators: tuple[OperatorFigures, ...] = ()
    fingerprints: tuple[FingerprintFigures, ...] = ()
    deploy: tuple[DeployFile, ...] = ()
    unread: tuple[str, ...] = ()
    schema: str = REPORT_SCHEMA


@dataclass(frozen=True, slots=True)
class Side:
    """One of two reports that are compared."""

    name: str
    entry_id: str | None
    model: str
    platform: str
    plan: str
    dtype: str
    method: str
    stack_fingerprint: str
    columns: Mapping[str, str]
    recorded_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class CheckChange:
    """A check on both sides (None: that side has none of it). `ratio` is the second figure over the first."""

    layer: CheckLayer
    check: str
    rung: str
    before: Verdict | None
    after: Verdict | None
    measured_before: float | None
    measured_after: float | None
    tolerance_before: float | None
    tolerance_after: float | None
    ratio: float | None
    reason_after: str

    @property
    def changed(self) -> bool:
        """Whether its verdict did."""
        return self.before is not self.after


@dataclass(frozen=True, slots=True)
class LayerMove:
    """A layer whose own error moved by the factor that counts as a move, or that stands out on one side alone."""

    check: str
    index: int
    module: str
    before: float | None
    after: float | None
    native_before: float | None
    native_after: float | None
    ratio: float | None
    stood_out: bool
    stands_out: bool


@dataclass(frozen=True, slots=True)
class PackageChange:
    """A package of the stacks whose versions differ (None: not there)."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class MeasurementPair:
    """A figure on both sides under equal conditions, as far as both have it; `ratio` is the second over the first."""

    name: str
    unit: str
    conditions: str
    before: Measurement | None
    after: Measurement | None
    ratio: float | None


@dataclass(frozen=True, slots=True)
class ReportDiff:
    """What two reports differ in; `layers_compared` counts the layers that both have, moved or not."""

    a: Side
    b: Side
    checks: tuple[CheckChange, ...]
    layers: tuple[LayerMove, ...]
    layers_compared: int
    packages: tuple[PackageChange, ...]
    measurements: tuple[MeasurementPair, ...]
    notes: tuple[str, ...] = ()
    schema: str = DIFF_SCHEMA
