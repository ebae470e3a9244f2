"""Fingerprints of tensors: a few numbers each, made so that those of parts add up to that of the whole."""

from dataclasses import dataclass
from enum import StrEnum

from dayzero.domain.observations import TensorError

PROJECTIONS = 8
"""Random projections of a sketch: the error that it estimates has a relative deviation of about 1/2."""
TOKEN_BLOCK = 64
"""Tokens that share one sketch, where nobody asks for other blocks."""
STATISTICS = 3
"""Numbers of a block behind its projections: norm, largest magnitude, elements that are not finite."""


class Point(StrEnum):
    """Where a tensor was taken: what a decoder layer is given, a rank's part before parts are summed, what a module returns."""

    INPUT = "input"
    BEFORE_SUM = "before_sum"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class TensorPrint:
    """One tensor of one rank, [tokens, channels], by blocks of tokens.

    `figures` is base64 of little-endian float32 [blocks, projections + 3]. The rank holds `channels` of the tensor's from
    `first` on (None: it says that it holds all). Before a sum, `group` is the first rank and the number of those that are
    summed; the statistics are then those of a part, and only the projections add up. `layer` None: outside of the layers.
    """

    module: str
    layer: int | None
    point: Point
    channels: int
    figures: str
    first: int | None = None
    group: tuple[int, int] | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of the figures, unpacked."""
        return len(self.figures) * 3 // 4 - self.figures.count("=")


@dataclass(frozen=True, slots=True)
class RankPrints:
    """The fingerprints of one run on one rank, in the order in which it computed. `seed` draws the signs."""

    rank: int
    tokens: int
    token_block: int
    projections: int
    seed: int
    prints: tuple[TensorPrint, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of all figures."""
        return sum(one.size_bytes for one in self.prints)


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """One input three ways: in higher precision, in one process of the ranks' dtype, and on the ranks. The first two hold
    the parts that ranks hold beside whole tensors."""

    dtype: str
    wide: RankPrints
    native: RankPrints
    ranks: tuple[RankPrints, ...]


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where a rank's tensor differs by more than reordered sums can: relative error as its sketch estimates it, in the tokens
    [first, last]. `whole_sum`: the parts of all ranks of a group were added here, so none of them is named (rank None).
    """

    layer: int | None
    module: str
    point: Point
    rank: int | None
    tokens: tuple[int, int]
    error: float | None
    tolerance: float
    nonfinite: int = 0


@dataclass(frozen=True, slots=True)
class ReplayedRank:
    """One operator alone on one rank: what it was given, and what it returned, against what it should."""

    rank: int
    given: TensorError | None
    returned: TensorError


@dataclass(frozen=True, slots=True)
class Replay:
    """The first divergent operator, run once more with its tensors kept whole; `expected` says what stands for right."""

    module: str
    point: Point
    expected: str
    ranks: tuple[ReplayedRank, ...]
