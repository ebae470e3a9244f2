"""How far the memory model was off on a platform, from the measurements that runs recorded there."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from dayzero.domain.verdict import Measurement

ERROR = "memory_model_error"
"""The measurement's name: predicted over measured, less one; its condition `item` says of what."""


@dataclass(frozen=True, slots=True)
class ModelError:
    """Relative errors of one item over so many measured ranks: the median of their sizes, and the worst with its sign (above 0:
    more was predicted than was taken)."""

    item: str
    median: float
    worst: float
    n: int


def memory_error(measurements: Iterable[Measurement], item: str = "peak") -> ModelError | None:
    """The errors of that item; None where nothing was measured, which is not the same as no error."""
    errors = [one.value for one in measurements if one.name == ERROR and one.conditions.get("item") == item]
    if not errors:
        return None
    return ModelError(item, median(abs(error) for error in errors), max(errors, key=abs), len(errors))


def error_words(error: ModelError | None) -> str:
    """The error in a sentence."""
    if error is None:
        return "unknown: no run on this platform was measured (dayzero verify MODEL --check memory)"
    ranks = "rank" if error.n == 1 else "ranks"
    return f"median {error.median:.1%}, worst {error.worst:+.1%} over {error.n} measured {ranks}"
