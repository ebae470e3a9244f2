"""The first tensor that differs: a scan in the order of the computation, for everything behind it inherits the difference.

Sketches are linear: that of a difference is the difference of sketches, that of a sum over ranks the sum of theirs. So a sum
over ranks is checked by itself: its parts are right when together they are the one process's tensor, and a rank's result is
right when it is that too. A rank whose parts are right and whose sum is not has lost or doubled the sum.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dayzero.domain.fingerprints import Divergence, Fingerprints, Point, RankPrints, TensorPrint
from dayzero.errors import BadInputError
from dayzero.stages.fingerprints.packing import BlockPrint, token_range, unpack
from dayzero.stages.fingerprints.tolerance import allowed

Key = tuple[str, Point, int | None, int]
"""Module, point, first channel (None: whole), channels."""


@dataclass(frozen=True, slots=True)
class Compared:
    """All differences in the order of the computation, and how many tensors of ranks were compared with one process's.

    `skipped` are those that one process has no counterpart of: parts whose place in the whole is not known.
    """

    divergences: tuple[Divergence, ...]
    tensors: int
    skipped: int
    largest_share: float | None
    """The largest error over its tolerance; None when nothing was compared."""


def first_divergent(prints: Fingerprints) -> Divergence | None:
    """Where the ranks first leave one process; None when they never do."""
    return next(iter(compare(prints).divergences), None)


def compare(prints: Fingerprints) -> Compared:
    """Every rank's tensor against the higher precision, by the error that one process has there.

    BadInputError: the runs were sketched differently.
    """
    _require_alike(prints)
    wide, native = _by_key(prints.wide), _by_key(prints.native)
    places = {key: at for at, key in enumerate(native)}
    found: list[tuple[tuple[int, int], Divergence]] = []
    counted = skipped = 0
    largest: float | None = None
    for subject in _subjects(prints.ranks):
        key = subject.key
        if key not in wide or key not in native:
            skipped += 1
            continue
        counted += 1
        for share, one in _differences(prints, subject, wide[key], native[key]):
            largest = share if largest is None else max(largest, share)
            if one is not None:
                # Parts before a sum come before its result.
                found.append(((places[key], subject.point is not Point.BEFORE_SUM), one))
    found.sort(key=lambda pair: (pair[0], pair[1].tokens, -1 if pair[1].rank is None else pair[1].rank))
    return Compared(tuple(one for _, one in found), counted, skipped, largest)


@dataclass(frozen=True, slots=True)
class _Subject:
    """A tensor of a rank, or the sum of a group's parts (rank None)."""

    key: Key
    layer: int | None
    point: Point
    rank: int | None
    blocks: tuple[BlockPrint, ...]


def _subjects(ranks: Sequence[RankPrints]) -> Iterator[_Subject]:
    sums: dict[tuple[str, tuple[int, int]], list[tuple[RankPrints, TensorPrint]]] = {}
    for run in ranks:
        for one in run.prints:
            if one.point is Point.BEFORE_SUM and one.group is not None:
                sums.setdefault((one.module, one.group), []).append((run, one))
            else:
                yield _Subject(_key(one), one.layer, one.point, run.rank, unpack(one, run.projections))
    for (module, (_, size)), parts in sums.items():
        if len(parts) == size:
            first = parts[0][1]
            added = _added([unpack(one, run.projections) for run, one in parts])
            yield _Subject((module, Point.OUTPUT, None, first.channels), first.layer, Point.BEFORE_SUM, None, added)


def _added(parts: Sequence[tuple[BlockPrint, ...]]) -> tuple[BlockPrint, ...]:
    """The sum's blocks: projections add up, the statistics of a sum do not follow from those of its parts."""
    return tuple(
        BlockPrint(
            tuple(math.fsum(values) for values in zip(*(block.sketch for block in blocks), strict=True)),
            math.nan,
            math.nan,
            sum(block.nonfinite for block in blocks),
        )
        for blocks in zip(*parts, strict=True)
    )


def _differences(
    prints: Fingerprints, subject: _Subject, wide: TensorPrint, native: TensorPrint
) -> Iterator[tuple[float, Divergence | None]]:
    """Each block's share of its tolerance, and the divergence where it is beyond it."""
    right, alone = unpack(wide, prints.wide.projections), unpack(native, prints.native.projections)
    if not len(right) == len(alone) == len(subject.blocks):
        raise BadInputError(f"{wide.module} was sketched in {len(subject.blocks)} blocks on a rank, in {len(right)} alone.")
    pooled = _pooled(alone, right)
    for at, (ours, theirs, exact) in enumerate(zip(subject.blocks, alone, right, strict=True)):
        tolerance = allowed(max(pooled, _error(theirs, exact) or 0.0), prints.dtype, len(prints.ranks))
        error, bad = _error(ours, exact), max(0, ours.nonfinite - theirs.nonfinite)
        if error is not None and error <= tolerance and not bad:
            yield error / tolerance, None
            continue
        share = math.inf if error is None or bad else error / tolerance
        tokens = token_range(prints.native, at)
        yield share, Divergence(subject.layer, wide.module, subject.point, subject.rank, tokens, error, tolerance, bad)


def _error(one: BlockPrint, exact: BlockPrint) -> float | None:
    """Relative error as the sketches estimate it; None where it is not finite."""
    square = sum((a - b) ** 2 for a, b in zip(one.sketch, exact.sketch, strict=True)) / len(exact.sketch)
    if not math.isfinite(square) or not math.isfinite(exact.norm):
        return None
    if exact.norm == 0.0:
        return 0.0 if square == 0.0 else None
    return math.sqrt(square) / exact.norm


def _pooled(blocks: Sequence[BlockPrint], exact: Sequence[BlockPrint]) -> float:
    """The error over all blocks: one block's few projections may be lucky."""
    errors = [error for pair in zip(blocks, exact, strict=True) if (error := _error(*pair)) is not None]
    return math.sqrt(sum(error**2 for error in errors) / len(errors)) if errors else 0.0


def _by_key(run: RankPrints) -> Mapping[Key, TensorPrint]:
    return {_key(one): one for one in run.prints}


def _key(one: TensorPrint) -> Key:
    return one.module, one.point, one.first, one.channels


def _require_alike(prints: Fingerprints) -> None:
    runs = (prints.wide, prints.native, *prints.ranks)
    if len({(run.tokens, run.token_block, run.projections, run.seed) for run in runs}) > 1:
        raise BadInputError("fingerprints of different tokens, blocks, projections or seeds cannot be compared.")
