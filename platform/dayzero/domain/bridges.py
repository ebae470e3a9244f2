"""Bridges: implementations that stand in for operators which a platform lacks, with what was measured of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from dayzero.domain.verdict import Verdict


class BridgeKind(StrEnum):
    """How an implementation is made."""

    DECOMPOSITION = "decomposition"
    COMPILED = "compiled"
    PLUGIN = "plugin"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to make the implementation again, in any process: `origin` names what it is made from.

    For a plugin `origin` is its setting (NAME[:option=value…]). `inner_roundings`: how often it rounds intermediate results to
    the dtype of its inputs, where the operator itself rounds once.
    """

    operator: str
    kind: BridgeKind
    origin: str
    inner_roundings: int = 0


@dataclass(frozen=True, slots=True)
class CallShape:
    """One way in which a model calls the operator: dtypes and shapes of its tensors, written as in an inventory."""

    dtypes: tuple[str, ...]
    shape_class: str


@dataclass(frozen=True, slots=True)
class GapTask:
    """What a bridge is looked for: the operator, the calls that a model makes of it, and the sizes of their symbols."""

    operator: str
    calls: tuple[CallShape, ...]
    symbols: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BridgeCase:
    """One input: errors of the candidate and of the host's own operator in the same dtype, each against float64.

    `inputs` says what was drawn and which flags were set. Errors are relative to the rms of the reference (mean over rows);
    `ratio_max` is the largest element error over max(the host's own, k · eps · rms). `exact` answers for integers.
    """

    inputs: str
    dtypes: tuple[str, ...]
    shapes: str
    n: int
    error: float | None = None
    native_error: float | None = None
    ratio_max: float | None = None
    share_within: float | None = None
    exact: bool | None = None
    nonfinite: int = 0
    raised: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An implementation that was tried. `why_not` says why there is none of that kind, and then nothing else is known.

    Times are medians of single calls on the first input, on the device and, for the eager composite, on the host.
    """

    recipe: Recipe
    why_not: str = ""
    source: str = ""
    cases: tuple[BridgeCase, ...] = ()
    bridge_s: float | None = None
    composite_s: float | None = None


@dataclass(frozen=True, slots=True)
class BridgesObserved:
    """Every candidate for one operator, in the order in which they ask least; `skipped` are calls no input was found for."""

    operator: str
    candidates: tuple[Candidate, ...]
    skipped: tuple[str, ...] = ()
    observed_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Bridge:
    """The verdict on a gap: the candidate that passed, or why none did. `reason` carries the numbers.

    `dtypes` are those it was verified in; `n` counts compared elements, `cases` inputs; `evidence` is the artifact with all
    figures.
    """

    operator: str
    platform: str
    verdict: Verdict
    reason: str
    recipe: Recipe | None = None
    source: str = ""
    dtypes: tuple[str, ...] = ()
    worst_error: float | None = None
    tolerance: float | None = None
    cases: int = 0
    n: int = 0
    bridge_s: float | None = None
    composite_s: float | None = None
    evidence: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()
