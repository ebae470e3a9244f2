"""How a tensor may be cut: runs of units that stay whole, side by side along one dimension."""

from dataclasses import dataclass
from enum import StrEnum

from dayzero.domain.canonical import Numbers
from dayzero.errors import BadInputError


class PartitionKind(StrEnum):
    """How a tensor is spread over ranks."""

    COLUMN = "column"
    ROW = "row"
    VOCABULARY = "vocabulary"
    REPLICATED = "replicated"
    EXPERT = "expert"
    ABSENT = "absent"


class UncuttableError(BadInputError):
    """A tensor that the degrees cannot cut: family of the reason, the reason, and its figures."""

    def __init__(self, family: str, reason: str, numbers: Numbers) -> None:
        self.family = family
        self.reason = reason
        self.numbers = numbers
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class Run:
    """`size` logical elements in `units` of equal size that no cut divides: heads, groups, or single columns.

    A shared unit (a key-value head, a group of one) may lie on several ranks where there are more ranks than units.
    """

    size: int
    units: int
    what: str
    shared: bool = False

    def range_of(self, part: int, parts: int) -> tuple[int, int] | None:
        """[start, stop) of one of so many parts; None when units neither divide by the parts nor, shared, the parts by them."""
        if self.units % parts == 0:
            share = self.size // parts
            return part * share, (part + 1) * share
        if self.shared and parts % self.units == 0:
            unit = self.size // self.units
            first = part * self.units // parts
            return first * unit, (first + 1) * unit
        return None


@dataclass(frozen=True, slots=True)
class Rule:
    """What may be done with a tensor, whatever the degrees.

    `axis` is the logical dimension that is cut (0: the output, 1: the input; larger ones are the stored dimension itself),
    `runs` what lies along it. `expert`: it belongs to a routed expert, `fused` to all experts of a layer at once. `summed`
    norms run over what is cut, so their sums of squares are added over ranks. `refused` says why it cannot be cut.
    """

    kind: PartitionKind
    axis: int = 0
    runs: tuple[Run, ...] = ()
    expert: bool = False
    fused: bool = False
    summed: bool = False
    refused: str | None = None

    @property
    def extent(self) -> int:
        """Logical elements along the axis."""
        return sum(run.size for run in self.runs)


WHOLE = Rule(PartitionKind.REPLICATED)


def column(*runs: Run) -> Rule:
    """The output dimension is cut."""
    return Rule(PartitionKind.COLUMN, 0, runs)


def row(run: Run) -> Rule:
    """The input dimension is cut; outputs are summed over ranks."""
    return Rule(PartitionKind.ROW, 1, (run,))
