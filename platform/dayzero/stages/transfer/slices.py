"""What a node needs of a checkpoint, as byte ranges to ask a hub for: few requests, and little that nobody needs."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from dayzero.domain.shards import ShardManifest, ShardTensor
from dayzero.domain.slices import GIB, FileSlices, SliceLimits, SlicePlan
from dayzero.domain.tensors import DTYPE_BITS, CheckpointIndex, TensorHeader
from dayzero.errors import BadInputError

__all__ = ["GIB", "FileSlices", "SliceLimits", "SlicePlan", "slices_of"]

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Grid:
    """`count` rows of `row_bytes` from `begin`, and the spans that are needed of each row."""

    begin: int
    row_bytes: int
    count: int
    spans: tuple[Range, ...]

    @property
    def first(self) -> int:
        return self.begin + self.spans[0][0]

    @property
    def last(self) -> int:
        return self.begin + (self.count - 1) * self.row_bytes + self.spans[-1][1]

    @property
    def needed_bytes(self) -> int:
        return self.count * sum(stop - start for start, stop in self.spans)

    @property
    def turn(self) -> int:
        """The gap from a row's last span to the next row's first."""
        return self.row_bytes - self.spans[-1][1] + self.spans[0][0]

    def gaps(self) -> Iterator[tuple[int, int]]:
        """(size, how often) of the gaps inside."""
        for (_, stop), (start, _) in pairwise(self.spans):
            yield start - stop, self.count
        if self.count > 1:
            yield self.turn, self.count - 1


def slices_of(
    manifest: ShardManifest, index: CheckpointIndex, ranks: Iterable[int], limits: SliceLimits | None = None
) -> SlicePlan:
    """The ranges that the ranks of one node need, whoever of them holds a byte.

    BadInputError: a rank that the manifest does not have, or a tensor that is not in the index as the layout took it.
    """
    limits = limits or SliceLimits()
    asked = tuple(sorted(set(ranks)))
    grids, shard_bytes = _grids(manifest, index, asked)
    needed = sum(grid.needed_bytes for many in grids.values() for grid in many)
    reach = _reach(grids, needed, limits)
    files = tuple(
        FileSlices(file, tuple(_parts(_merged(many, reach), limits.part_bytes)), sum(grid.needed_bytes for grid in many))
        for file, many in sorted(grids.items())
    )
    streamed = sum(1 for many in grids.values() for grid in many if grid.count > 1 and _widest(grid) <= reach)
    return SlicePlan(asked, files, shard_bytes, streamed)


def _grids(manifest: ShardManifest, index: CheckpointIndex, ranks: tuple[int, ...]) -> tuple[dict[str, list[_Grid]], int]:
    """What is needed of each file, by place, and the bytes of the node's shards without padding."""
    known = {(header.file, header.name): header for header in index.tensors}
    shards = {file.rank: file for file in manifest.files}
    absent = [rank for rank in ranks if rank not in shards]
    if absent or not ranks:
        raise BadInputError(
            f"rank {absent[0]} is not in the layout {manifest.degrees}." if absent else "no rank is asked for.",
            remedy=f"It has the ranks {min(shards)} to {max(shards)}." if shards else None,
        )
    held: dict[tuple[str, str], dict[_Want, None]] = {}
    shard_bytes = 0
    for tensor in (tensor for rank in ranks for tensor in shards[rank].tensors):
        shard_bytes += tensor.end - tensor.begin - tensor.padding_bytes
        if tensor.end - tensor.begin > tensor.padding_bytes:
            held.setdefault((tensor.file, tensor.name), {})[_want(tensor)] = None
    grids: dict[str, list[_Grid]] = {}
    for (file, name), wants in held.items():
        header = known.get((file, name))
        if header is None:
            raise BadInputError(f"the layout takes tensor {name} from {file}, which does not hold it.")
        grids.setdefault(file, []).extend(_of_tensor(header, tuple(wants)))
    for many in grids.values():
        many.sort(key=lambda grid: grid.first)
    return grids, shard_bytes


@dataclass(frozen=True, slots=True)
class _Want:
    """A rank's part of a tensor, as ShardTensor has it."""

    dim: int | None
    pieces: tuple[Range, ...]
    rows: tuple[Range, ...]


def _want(tensor: ShardTensor) -> _Want:
    pieces = tensor.pieces or ((tensor.start, tensor.stop),)
    return _Want(tensor.dim, () if tensor.dim is None else pieces, tensor.rows)


def _of_tensor(header: TensorHeader, wants: tuple[_Want, ...]) -> Iterator[_Grid]:
    """Grids of one tensor: rows of one geometry, cut where the ranks differ."""
    inner = next((want.dim for want in wants if want.dim), 0)
    if not header.shape:
        yield _Grid(header.begin, header.size_bytes, 1, ((0, header.size_bytes),))
        return
    row_bytes = header.size_bytes // prod(header.shape[:inner]) if inner else header.size_bytes // header.shape[0]
    per_first = prod(header.shape[1:inner]) if inner else 1
    unit_bits = prod(header.shape[inner + 1 :]) * DTYPE_BITS[header.dtype]
    placed: list[tuple[Range, tuple[Range, ...]]] = []
    for want in wants:
        rows = want.rows or ((0, header.shape[0]),)
        for first, last in rows:
            if want.dim == 0:
                placed += [(((first + start) * per_first, (first + stop) * per_first), ((0, row_bytes),))
                           for start, stop in want.pieces]  # fmt: skip
            else:
                spans = ((0, row_bytes),) if want.dim is None else tuple(
                    (start * unit_bits // 8, stop * unit_bits // 8) for start, stop in want.pieces
                )  # fmt: skip
                placed.append(((first * per_first, last * per_first), spans))
    if any(not 0 <= first <= last <= header.size_bytes // max(row_bytes, 1) for (first, last), _ in placed):
        raise BadInputError(f"the layout takes rows of {header.name} that it does not have.")
    for (first, last), spans in _elementary(placed):
        if spans == ((0, row_bytes),):
            yield _Grid(header.begin + first * row_bytes, (last - first) * row_bytes, 1, ((0, (last - first) * row_bytes),))
        else:
            yield _Grid(header.begin + first * row_bytes, row_bytes, last - first, spans)


def _elementary(placed: list[tuple[Range, tuple[Range, ...]]]) -> Iterator[tuple[Range, tuple[Range, ...]]]:
    """Row ranges apart from each other, each with the spans that anybody needs of its rows."""
    if len({spans for _, spans in placed}) == 1:
        same = _union([span for span in placed[0][1] if span[0] < span[1]])
        yield from ((rows, same) for rows in _union([rows for rows, _ in placed]) if same and rows[0] < rows[1])
        return
    bounds = sorted({bound for rows, _ in placed for bound in rows})
    for first, last in pairwise(bounds):
        spans = [span for (begin, end), many in placed if begin <= first and last <= end for span in many if span[0] < span[1]]
        if spans:
            yield (first, last), _union(spans)


def _union(spans: list[Range]) -> tuple[Range, ...]:
    joined: list[Range] = []
    for start, stop in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return tuple(joined)


def _reach(grids: Mapping[str, list[_Grid]], needed_bytes: int, limits: SliceLimits) -> int:
    """The largest gap that is read over."""
    count: dict[int, int] = {}
    for many in grids.values():
        for size, often in _all_gaps(many):
            count[size] = count.get(size, 0) + often
    requests = len(grids) + sum(count.values())
    overread, reach = 0, 0
    for size in sorted(count):
        allowed = max(limits.least_requests, limits.requests_per_gib * (needed_bytes + overread) // GIB)
        overread += size * count[size]
        cheap = size <= limits.near_bytes and overread <= limits.overread_share * needed_bytes
        if size and not cheap and requests <= allowed:
            break
        requests -= count[size]
        reach = size
    return reach


def _all_gaps(many: list[_Grid]) -> Iterator[tuple[int, int]]:
    for grid in many:
        yield from grid.gaps()
    for before, after in pairwise(many):
        yield after.first - before.last, 1


def _widest(grid: _Grid) -> int:
    return max((size for size, _ in grid.gaps()), default=0)


def _merged(many: list[_Grid], reach: int) -> Iterator[Range]:
    """Ranges whose gaps are wider than the reach."""
    begin, end = many[0].first, many[0].first
    for start, stop in (piece for grid in many for piece in _pieces(grid, reach)):
        if start - end > reach:
            yield begin, end
            begin = start
        end = stop
    yield begin, end


def _pieces(grid: _Grid, reach: int) -> Iterator[Range]:
    """A grid in as few pieces as the reach allows, so that millions of rows are not walked."""
    inside = max((start - stop for (_, stop), (start, _) in pairwise(grid.spans)), default=0)
    if inside <= reach and (grid.count == 1 or grid.turn <= reach):
        yield grid.first, grid.last
        return
    spans = ((grid.spans[0][0], grid.spans[-1][1]),) if inside <= reach else grid.spans
    for row in range(grid.count):
        at = grid.begin + row * grid.row_bytes
        for start, stop in spans:
            yield at + start, at + stop


def _parts(ranges: Iterable[Range], part_bytes: int) -> Iterator[Range]:
    for begin, end in ranges:
        for at in range(begin, end, part_bytes):
            yield at, min(at + part_bytes, end)
