"""Cutting one tensor: the pieces that a rank gets, or why it cannot be cut."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import lcm, prod

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.canonical import Numbers
from dayzero.domain.tensors import DTYPE_BITS, TensorHeader
from dayzero.stages.layout.grain import Grain, grain_of
from dayzero.stages.layout.names import TensorPlace
from dayzero.stages.layout.partition import Partition
from dayzero.stages.layout.rules import Rules
from dayzero.stages.layout.runs import PartitionKind, Rule, Run, UncuttableError

__all__ = ["VOCABULARY_MULTIPLE", "Cut", "Range", "UncuttableError", "cut", "cut_by", "largest_power_of_two", "padded_rows"]

VOCABULARY_MULTIPLE = 64
"""Rows that embeddings and heads are padded to a multiple of before they are cut (vLLM, DEFAULT_VOCAB_PADDING_SIZE)."""

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Cut:
    """A rank's part of a tensor: `pieces` along `dim` (None: the whole), of `rows` of its first dimension where only some
    experts are held (() for all), the local shape and its bytes, `padding_bytes` of them beyond the tensor's end. `bounds` go
    from the first piece's start to the last one's end."""

    dim: int | None
    pieces: tuple[Range, ...]
    shape: tuple[int, ...]
    size_bytes: int
    rows: tuple[Range, ...] = ()
    padding_bytes: int = 0
    bounds: Range = (0, 1)


def padded_rows(rows: int, parts: int) -> int:
    """Rows of a vocabulary with padding: a multiple of 64 that divides by the parts; not padded when it is not cut."""
    multiple = lcm(VOCABULARY_MULTIPLE, parts)
    return rows if parts == 1 else -(-rows // multiple) * multiple


def cut_by(
    rule: Rule,
    header: TensorHeader,
    place: TensorPlace,
    spec: ModelSpec,
    parts: int,
    part: int = 0,
    rows: tuple[Range, ...] = (),
) -> Cut:
    """What one of `parts` ranks holds of a tensor, of the experts in `rows`; UncuttableError says why it cannot be cut."""
    shape = (sum(stop - start for start, stop in rows), *header.shape[1:]) if rows else header.shape
    size_bytes = prod(shape) * DTYPE_BITS[header.dtype] // 8
    whole = Cut(None, (), shape, size_bytes, rows, bounds=(0, header.shape[0] if header.shape else 1))
    if parts == 1:
        return whole
    if rule.refused is not None:
        raise UncuttableError("fused tensor", f"{header.name} {rule.refused}", {})
    if rule.kind is PartitionKind.REPLICATED:
        return whole
    if rule.kind is PartitionKind.VOCABULARY:
        return _vocabulary(header, parts, part) if _is_plain(header) else whole
    grain = grain_of(header, place, rule, spec)
    if grain is None:
        return whole
    pieces = tuple(_stored(header, piece, rule, grain, parts) for piece in _ranges(header, rule, parts, part))
    local = sum(stop - start for start, stop in pieces)
    shape = (*shape[: grain.dim], local, *shape[grain.dim + 1 :])
    bits = prod(shape[grain.dim :]) * DTYPE_BITS[header.dtype]
    if bits % 8:
        raise UncuttableError("tensor size", f"{header.name}: {local} elements of {header.dtype} do not end on a byte",
                              {"size": local})  # fmt: skip
    size_bytes = prod(shape) * DTYPE_BITS[header.dtype] // 8
    return Cut(grain.dim, _joined(pieces), shape, size_bytes, rows, bounds=(pieces[0][0], pieces[-1][1]))


def cut(header: TensorHeader, place: TensorPlace, partition: Partition, spec: ModelSpec) -> Cut:
    """The part of a tensor that a partition gives."""
    parts = 1 if partition.axis is None else partition.parts
    return cut_by(Rules(spec).rule_at(place), header, place, spec, parts, partition.part if parts > 1 else 0)


def _is_plain(header: TensorHeader) -> bool:
    """Quantized embeddings and heads stay whole: padding rows would need scales of their own."""
    return header.dtype in ("F32", "F16", "BF16", "F64") and "scale" not in header.name


def _vocabulary(header: TensorHeader, parts: int, part: int) -> Cut:
    rows = header.shape[0]
    local = padded_rows(rows, parts) // parts
    start, stop = min(part * local, rows), min((part + 1) * local, rows)
    shape = (local, *header.shape[1:])
    row_bytes = prod(header.shape[1:]) * DTYPE_BITS[header.dtype] // 8
    padding_bytes = (local - (stop - start)) * row_bytes
    return Cut(0, ((start, stop),), shape, local * row_bytes, padding_bytes=padding_bytes, bounds=(start, stop))


def _ranges(header: TensorHeader, rule: Rule, parts: int, part: int) -> list[Range]:
    """Logical ranges along the axis, one of each run."""
    at, found = 0, []
    for run in rule.runs:
        piece = run.range_of(part, parts)
        if piece is None:
            raise _indivisible(header.name, run, parts)
        found.append((at + piece[0], at + piece[1]))
        at += run.size
    return found


def _indivisible(name: str, run: Run, parts: int) -> UncuttableError:
    reason = f"{name}: {run.units} {run.what} do not divide by {parts}"
    if run.shared and parts > run.units:
        reason += f", nor {parts} by them"
    return UncuttableError(run.what, reason, {"size": run.units, "parts": parts})


def _stored(header: TensorHeader, piece: Range, rule: Rule, grain: Grain, parts: int) -> Range:
    """A logical range in stored elements; a grain that it splits cannot be cut."""
    start, stop = piece
    step = max(grain.size, grain.block)
    if start % step or (stop % step and stop != rule.extent):
        raise _splits(header, stop - start, rule, grain, parts)
    return start // grain.size, -(-stop // grain.size)


def _splits(header: TensorHeader, local: int, rule: Rule, grain: Grain, parts: int) -> UncuttableError:
    block = max(grain.size, grain.block)
    fitting = largest_power_of_two(rule.runs, block)
    advice = "tp 1 is all that fits" if fitting == 1 else f"tp {fitting} is the largest power of two that fits"
    if rule.expert:
        advice += "; or whole experts by ep"
    what = "quantization block" if grain.quantized else "packed word"
    numbers: Numbers = {"size": rule.extent, "local": local, "block": block, "parts": parts, "largest": fitting}
    family = "block quantization" if grain.quantized else "quantization"
    return UncuttableError(family, f"{header.name}: {local} a rank is no multiple of the {what} {block}; {advice}", numbers)


def largest_power_of_two(runs: Iterable[Run], block: int) -> int:
    """The largest power of two whose parts of every run are whole units and whole blocks; 1 when no cut is."""
    known, parts = list(runs), 1
    while all(run.units % (2 * parts) == 0 and run.size // (2 * parts) % block == 0 for run in known):
        parts *= 2
    return parts


def _joined(pieces: tuple[Range, ...]) -> tuple[Range, ...]:
    joined: list[Range] = []
    for start, stop in pieces:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return tuple(joined)
