"""Where a manifest comes from, what running it showed, and what changed between two of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from dayzero.domain.verdict import Verdict


class ManifestOrigin(StrEnum):
    """How a manifest came about: read from the installed torch, read from a published package, or by running operators."""

    DISPATCHER = "dispatcher"
    PACKAGE = "package"
    PROBE = "probe"


@dataclass(frozen=True, slots=True)
class DtypeFact:
    """What running one operator in one dtype showed.

    `worst_error` and `limit` are shares of the rms of the float64 result; `distribution` names the inputs of the worst error;
    `time_s` is the shortest of several runs. pass: within the limit; fail: worse; error: it raised; not_run: nobody could make
    up arguments, or there is nothing to compare with (`why` says which). `crashed`: an error that ended the process or took too
    long, which says nothing about other arguments.
    """

    dtype: str
    verdict: Verdict
    samples: int = 0
    worst_error: float | None = None
    limit: float | None = None
    distribution: str | None = None
    time_s: float | None = None
    why: str | None = None
    crashed: bool = False


@dataclass(frozen=True, slots=True)
class CollectiveFact:
    """One collective operation measured: `size_bytes` a rank, the median time, and `size_bytes` over it."""

    operation: str
    backend: str
    ranks: int
    size_bytes: int
    time_s: float
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Turnover:
    """What one list lost and gained between two releases, sorted."""

    removed: tuple[str, ...]
    added: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ManifestDifference:
    """What changed between two releases of one provider; `changed` maps an operator to what is another now.

    `lists` holds, by name, the turnover of operators, excluded and unnamed ones, architectures, attention backends and
    quantization methods; a list that did not change is left out.
    """

    provider: str
    before: str
    after: str
    lists: Mapping[str, Turnover]
    changed: Mapping[str, str]
