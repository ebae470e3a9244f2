"""What a node needs of a checkpoint, as byte ranges to ask a hub for: few requests, and little that nobody needs."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from dayzero.domain.shards import ShardManifest, ShardTensor
from dayzero.domain.slices import GIB, FileSlices, SliceLimits, SlicePlan
from dayzero.domain.tensors import CheckpointIndex, TensorHeader
from dayzero.errors import BadInputError
from dayzero.stages.transfer.geometry import Range, Stretch, part_of, stretches_of


def slices_of(
    manifest: ShardManifest, index: CheckpointIndex, ranks: Iterable[int], limits: SliceLimits | None = None
) -> SlicePlan:
    """The ranges that the ranks of one node need, whoever of them holds a byte.

    BadInputError: a rank that the manifest does not have, or a tensor that is not in the index as the layout took it.
    """
    limits = limits or SliceLimits()
    asked = tuple(sorted(set(ranks)))
    wanted, shard_bytes = _wanted(manifest, index, asked)
    needed = {file: sum(one.taken_bytes * one.count for one in many) for file, many in wanted.items()}
    reach = _reach(wanted, sum(needed.values()), limits)
    files = tuple(
        FileSlices(file, tuple(_parts(_merged(many, reach), limits.part_bytes)), needed[file])
        for file, many in sorted(wanted.items())
    )
    streamed = sum(1 for many in wanted.values() for one in many if one.count > 1 and _widest(one) <= reach)
    return SlicePlan(asked, files, shard_bytes, streamed)


def _wanted(manifest: ShardManifest, index: CheckpointIndex, ranks: tuple[int, ...]) -> tuple[dict[str, list[Stretch]], int]:
    """What is wanted of each file, by place and apart, and the bytes of the node's shards without padding."""
    known = {(header.file, header.name): header for header in index.tensors}
    held: dict[tuple[str, str], list[ShardTensor]] = {}
    shard_bytes = 0
    for tensor in _tensors_of(manifest, ranks):
        shard_bytes += tensor.end - tensor.begin - tensor.padding_bytes
        if tensor.end - tensor.begin > tensor.padding_bytes:
            held.setdefault((tensor.file, tensor.name), []).append(tensor)
    wanted: dict[str, list[Stretch]] = {}
    for (file, name), tensors in held.items():
        parts = {part_of(tensor): tensor for tensor in tensors}
        header = known.get((file, name))
        stretches = [stretch for tensor in parts.values() for stretch in stretches_of(tensor, header)]
        assert header is not None, "stretches_of refuses a tensor without a header"
        wanted.setdefault(file, []).extend(_apart(stretches, header))
    for many in wanted.values():
        many.sort(key=_first)
    return wanted, shard_bytes


def _tensors_of(manifest: ShardManifest, ranks: tuple[int, ...]) -> Iterator[ShardTensor]:
    shards = {file.rank: file for file in manifest.files}
    absent = [rank for rank in ranks if rank not in shards]
    if absent or not ranks:
        raise BadInputError(
            f"rank {absent[0]} is not in the layout {manifest.degrees}." if absent else "no rank is asked for.",
            remedy=f"It has the ranks {min(shards)} to {max(shards)}." if shards else None,
        )
    return (tensor for rank in ranks for tensor in shards[rank].tensors)


def _apart(stretches: list[Stretch], header: TensorHeader) -> Iterator[Stretch]:
    """The bytes of one tensor that anybody takes, each once: rows of one geometry, cut where the ranks differ."""
    sizes = {one.row_bytes for one in stretches if not one.contiguous}
    if len(sizes) > 1:
        raise BadInputError(f"the layout cuts {header.name} along several dimensions.", remedy="Shard the model anew.")
    row_bytes = sizes.pop() if sizes else 1
    placed: list[tuple[Range, tuple[Range, ...]]] = []
    for one in stretches:
        first, last = (one.begin - header.begin) // row_bytes, (one.end - header.begin) // row_bytes
        placed.append(((first, last), ((0, row_bytes),) if one.contiguous else one.spans))
    for (first, last), spans in _elementary(placed):
        begin, size = header.begin + first * row_bytes, (last - first) * row_bytes
        if spans == ((0, row_bytes),):
            yield Stretch(begin, size, 1, ((0, size),))
        else:
            yield Stretch(begin, row_bytes, last - first, spans)


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


def _first(stretch: Stretch) -> int:
    """The first byte that is wanted."""
    return stretch.begin + stretch.spans[0][0]


def _last(stretch: Stretch) -> int:
    """The first byte after the last one that is wanted."""
    return stretch.begin + (stretch.count - 1) * stretch.row_bytes + stretch.spans[-1][1]


def _turn(stretch: Stretch) -> int:
    """The gap from a row's last span to the next row's first."""
    return stretch.row_bytes - stretch.spans[-1][1] + stretch.spans[0][0]


def _gaps(stretch: Stretch) -> Iterator[tuple[int, int]]:
    """(size, how often) of the gaps inside."""
    for (_, stop), (start, _) in pairwise(stretch.spans):
        yield start - stop, stretch.count
    if stretch.count > 1:
        yield _turn(stretch), stretch.count - 1


def _reach(wanted: Mapping[str, list[Stretch]], needed_bytes: int, limits: SliceLimits) -> int:
    """The largest gap that is read over."""
    count: dict[int, int] = {}
    for many in wanted.values():
        for size, often in _all_gaps(many):
            count[size] = count.get(size, 0) + often
    requests = len(wanted) + sum(count.values())
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


def _all_gaps(many: list[Stretch]) -> Iterator[tuple[int, int]]:
    for one in many:
        yield from _gaps(one)
    for before, after in pairwise(many):
        yield _first(after) - _last(before), 1


def _widest(stretch: Stretch) -> int:
    return max((size for size, _ in _gaps(stretch)), default=0)


def _merged(many: list[Stretch], reach: int) -> Iterator[Range]:
    """Ranges whose gaps are wider than the reach."""
    begin, end = _first(many[0]), _first(many[0])
    for start, stop in (piece for one in many for piece in _pieces(one, reach)):
        if start - end > reach:
            yield begin, end
            begin = start
        end = stop
    yield begin, end


def _pieces(stretch: Stretch, reach: int) -> Iterator[Range]:
    """A stretch in as few pieces as the reach allows, so that millions of rows are not walked."""
    spans = stretch.spans
    inside = max((start - stop for (_, stop), (start, _) in pairwise(spans)), default=0)
    if inside <= reach and (stretch.count == 1 or _turn(stretch) <= reach):
        yield _first(stretch), _last(stretch)
        return
    if inside <= reach:
        spans = ((spans[0][0], spans[-1][1]),)
    for row in range(stretch.count):
        at = stretch.begin + row * stretch.row_bytes
        for start, stop in spans:
            yield at + start, at + stop


def _parts(ranges: Iterable[Range], part_bytes: int) -> Iterator[Range]:
    for begin, end in ranges:
        for at in range(begin, end, part_bytes):
            yield at, min(at + part_bytes, end)
