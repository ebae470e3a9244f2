"""Shards joined again: where in the ranks' files the bytes of each whole tensor lie."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from dayzero.domain.shards import ShardFile, ShardManifest, ShardTensor
from dayzero.domain.tensors import DTYPE_BITS, TensorHeader
from dayzero.errors import BadInputError
from dayzero.stages.layout.cut import Range
from dayzero.stages.layout.ranks import reached


@dataclass(frozen=True, slots=True)
class Slice:
    """A rank's part of a slab: from `begin` of its file on, for each outer row, the `pieces` along the cut dimension."""

    file: str
    begin: int
    pieces: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Slab:
    """A contiguous part of a whole tensor, `offset` bytes from its begin: `outer` rows of `extent` units."""

    offset: int
    outer: int
    extent: int
    unit_bytes: int
    slices: tuple[Slice, ...]


@dataclass(frozen=True, slots=True)
class JoinedTensor:
    """A whole tensor in the file that it came from, where it began at `begin` (0: not known)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: str
    begin: int
    slabs: tuple[Slab, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole tensor."""
        return sum(slab.outer * slab.extent * slab.unit_bytes for slab in self.slabs)


def joined_tensors(manifest: ShardManifest) -> tuple[JoinedTensor, ...]:
    """Every tensor of the checkpoint that the shards were cut from, by name; the manifest is not a folded one.

    BadInputError: shards of some ranks are missing, or those of all do not make up a whole tensor.
    """
    ranks = {file.rank for file in manifest.files}
    absent = sorted(set(range(manifest.degrees.world)) - ranks)
    if absent:
        raise BadInputError(
            f"the manifest has no shards of rank {absent[0]} ({len(absent)} of {manifest.degrees.world} are missing).",
            remedy="Shard the model for all ranks.",
        )
    held: dict[str, list[tuple[ShardFile, ShardTensor]]] = {}
    for file in manifest.files:
        for tensor in file.tensors:
            held.setdefault(tensor.name, []).append((file, tensor))
    rules = manifest.rules
    origins = {} if rules is None else {name: (begin, rules.cuts[cut].shape) for name, cut, _, begin, _ in rules.tensors}
    if origins and set(origins) != set(held):
        name = min(set(origins) ^ set(held))
        raise BadInputError(f"no shard of any rank holds {name}.", remedy="Shard the model anew.")
    return tuple(_joined(held[name], origins.get(name)) for name in sorted(held))


def whole_tensors(manifest: ShardManifest, headers: Iterable[TensorHeader]) -> Mapping[str, JoinedTensor]:
    """Those of the tensors, by name, that the manifest's files make up wholly, of whichever ranks they are; others are left
    out."""
    wanted = {header.name: header for header in headers}
    held: dict[str, list[tuple[ShardFile, ShardTensor]]] = {}
    for file in manifest.files:
        for tensor in file.tensors:
            if tensor.name in wanted:
                held.setdefault(tensor.name, []).append((file, tensor))
    found = {}
    for name, parts in held.items():
        try:
            found[name] = _joined(parts, (wanted[name].begin, wanted[name].shape))
        except BadInputError:
            continue
    return found


def _joined(parts: list[tuple[ShardFile, ShardTensor]], origin: tuple[int, tuple[int, ...]] | None) -> JoinedTensor:
    distinct = {(tensor.dim, _pieces(tensor), tensor.rows): (file, tensor) for file, tensor in reversed(parts)}
    known = [tensor for _, tensor in distinct.values()]
    first = known[0]
    if len({(tensor.dtype, tensor.dim, tensor.file, len(tensor.shape), bool(tensor.rows)) for tensor in known}) > 1:
        raise BadInputError(f"shards hold {first.name} cut in different ways.", remedy="Shard the model anew.")
    experts = max((last for tensor in known for _, last in tensor.rows), default=None)
    extent = None if first.dim is None else max(stop for tensor in known for _, stop in _pieces(tensor))
    shape = list(first.shape)
    if experts is not None:
        shape[0] = experts
    if first.dim is not None and extent is not None:
        shape[first.dim] = extent
    whole = tuple(shape)
    if origin is not None and origin[1] != whole:
        raise BadInputError(
            f"shards make up {list(whole)} of {first.name}, which was {list(origin[1])}.", remedy="Shard the model anew."
        )
    slabs = tuple(_slabs(whole, list(distinct.values()), experts))
    for slab in slabs:
        _require_cover(first.name, slab)
    return JoinedTensor(first.name, first.dtype, whole, first.file, 0 if origin is None else origin[0], slabs)


def _pieces(tensor: ShardTensor) -> tuple[Range, ...]:
    return () if tensor.dim is None else tensor.pieces or ((tensor.start, tensor.stop),)


def _slabs(shape: tuple[int, ...], parts: list[tuple[ShardFile, ShardTensor]], experts: int | None) -> Iterator[Slab]:
    """One for each expert where ranks hold some of them, else one for all."""
    tensor = parts[0][1]
    bits = DTYPE_BITS[tensor.dtype]
    inner = shape if experts is None else shape[1:]
    dim = None if tensor.dim is None else tensor.dim - (0 if experts is None else 1)
    outer, extent, unit_bits = (
        (1, 1, prod(inner) * bits) if dim is None else (prod(inner[:dim]), inner[dim], prod(inner[dim + 1 :]) * bits)
    )
    size = outer * extent * unit_bits // 8
    # Elements of less than a byte are cut at whole bytes: one unit is then a byte, and pieces count these.
    scale, unit_bytes = (1, unit_bits // 8) if unit_bits % 8 == 0 else (8 // unit_bits, 1)
    for expert in range(1 if experts is None else experts):
        slices = tuple(_slices(parts, None if experts is None else expert, outer, unit_bits, scale))
        yield Slab(expert * size, outer, extent // scale, unit_bytes, slices)


def _slices(
    parts: list[tuple[ShardFile, ShardTensor]], expert: int | None, outer: int, unit_bits: int, scale: int
) -> Iterator[Slice]:
    for file, tensor in parts:
        pieces = _pieces(tensor) or ((0, 1),)
        number = 0 if expert is None else _number_of(expert, tensor.rows)
        if number is None:
            continue
        local = outer * sum(stop - start for start, stop in pieces) * unit_bits // 8
        yield Slice(file.path, tensor.begin + number * local, tuple((start // scale, stop // scale) for start, stop in pieces))


def _number_of(expert: int, rows: Iterable[Range]) -> int | None:
    """Which of the experts that a rank holds it is."""
    before = 0
    for first, last in rows:
        if first <= expert < last:
            return before + expert - first
        before += last - first
    return None


def _require_cover(name: str, slab: Slab) -> None:
    at = reached(each.pieces for each in slab.slices)
    if at != slab.extent or not slab.slices:
        raise BadInputError(f"no shard holds {name} from {at} on, of {slab.extent}.", remedy="Shard the model anew.")
