"""From a layout's rules to the files of ranks, whichever are asked for: no structure is needed, and nothing else is made."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import prod

from dayzero.domain.planning import Degrees
from dayzero.domain.shards import ShardCut, ShardFile, ShardManifest, ShardRow, ShardRules, ShardTensor
from dayzero.domain.tensors import DTYPE_BITS
from dayzero.errors import BadInputError
from dayzero.stages.layout.cut import Range
from dayzero.stages.layout.partition import Coordinates, coordinates_of, expert_slices, slots_of

__all__ = ["RankFiles", "covers", "fold", "rank_path", "reached", "shard_header", "unfold"]

_Ranges = tuple[Range, ...]


def rank_path(rank: int) -> str:
    """The name of a rank's file."""
    return f"rank-{rank:05d}.safetensors"


def fold(manifest: ShardManifest) -> ShardManifest:
    """The manifest as it is kept: one row a tensor, whatever the number of ranks. Without rules, the manifest as it is."""
    if manifest.rules is None:
        return manifest
    return replace(manifest, files=tuple(replace(file, tensors=(), tensor_digests=()) for file in manifest.files))


def unfold(manifest: ShardManifest, ranks: Iterable[int] | None = None) -> ShardManifest:
    """The manifest with the tensors of its files, or only of those of the ranks; BadInputError when a rank's file is not
    there, or its size is not what the rules lead to."""
    asked = None if ranks is None else set(ranks)
    absent = sorted((asked or set()) - {file.rank for file in manifest.files})
    if absent:
        raise BadInputError(
            f"the manifest of {manifest.degrees} has no shard of rank {absent[0]}.",
            remedy="Name a rank whose shard is there, or write it.",
        )
    kept = [file for file in manifest.files if asked is None or file.rank in asked]
    if manifest.rules is None:
        return replace(manifest, files=tuple(kept))
    _require_sound(manifest.rules, manifest.degrees)
    made = RankFiles(manifest.content_id, manifest.rules, manifest.degrees, manifest.redundant_experts)
    return replace(manifest, files=tuple(_filled(file, made) for file in kept))


def _require_sound(rules: ShardRules, degrees: Degrees) -> None:
    """BadInputError for rules that no layout made."""
    where = next((f"cut {at}" for at, cut in enumerate(rules.cuts) if not _is_sound(cut, degrees)), None)
    cuts, files = len(rules.cuts), len(rules.files)
    if where is None:
        bad = (name for name, cut, file, *_ in rules.tensors if not (0 <= cut < cuts and 0 <= file < files))
        where = next((f"tensor {name[:160]}" for name in bad), None)
    if where is not None:
        raise BadInputError(f"the rules of the manifest contradict themselves at {where}.", remedy="Shard the model anew.")


def _is_sound(cut: ShardCut, degrees: Degrees) -> bool:
    if cut.dtype not in DTYPE_BITS or (cut.stacked and not cut.shape):
        return False
    if cut.dim is None:
        return True
    if not 0 <= cut.dim < len(cut.shape) or cut.local < 1 or not all(cut.parts):
        return False
    whole = cut.shape[cut.dim]
    if not covers(cut.parts, whole):
        return False
    inside = all(0 <= start <= stop <= whole for pieces in cut.parts for start, stop in pieces)
    fits = all(sum(stop - start for start, stop in pieces) <= cut.local for pieces in cut.parts)
    return inside and fits and len(cut.parts) >= (expert_slices(degrees) if cut.sliced else degrees.tp)


def covers(parts: Iterable[_Ranges], size: int) -> bool:
    """Whether the pieces of all parts together leave out nothing of [0, size): no tensor may be cut so that a byte is lost."""
    return reached(parts) >= size


def reached(parts: Iterable[_Ranges]) -> int:
    """How far from 0 the pieces of all parts together leave out nothing."""
    at = 0
    for start, stop in sorted(piece for pieces in parts for piece in pieces):
        if start > at:
            break
        at = max(at, stop)
    return at


def _filled(file: ShardFile, made: "RankFiles") -> ShardFile:
    if file.tensors:
        return file
    found = made.file_of(file.rank)
    if (found.size_bytes, found.header_bytes, found.tensor_count) != (file.size_bytes, file.header_bytes, file.tensor_count):
        raise BadInputError(
            f"the manifest gives {file.path} {file.size_bytes} bytes; its rules lead to {found.size_bytes}.",
            remedy="Shard the model anew.",
        )
    return replace(file, tensors=found.tensors)


def shard_header(manifest: ShardManifest, file: ShardFile) -> bytes:
    """The first bytes of a rank's file, which is not a folded one: length and JSON header, padded with spaces to a multiple of
    8 bytes. Its metadata name the release by the digest of its content, the plan and the rank.

    Offsets follow from the sizes of the tensors in their order, so the header is the same for placed and unplaced ones.
    """
    rows = _rows_text((one.name, one.dtype, one.shape, one.end - one.begin) for one in file.tensors)
    return _framed(rows, file.rank, manifest.degrees, manifest.content_id)


def _rows_text(rows: Iterable[tuple[str, str, tuple[int, ...], int]]) -> str:
    document, at = {}, 0
    for name, dtype, shape, size in rows:
        document[name] = {"dtype": dtype, "shape": shape, "data_offsets": (at, at + size)}
        at += size
    return json.dumps(document, separators=(",", ":"))


def _framed(rows: str, rank: int, degrees: Degrees, content_id: str) -> bytes:
    metadata = {"content_id": content_id, "degrees": str(degrees), "format": "pt", "rank": str(rank)}
    first = json.dumps({"__metadata__": metadata}, separators=(",", ":"))
    text = (first if rows == "{}" else f"{first[:-1]},{rows[1:]}").encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


@dataclass(frozen=True, slots=True)
class _Held:
    """What one rank holds of every tensor of one cut."""

    dtype: str
    shape: tuple[int, ...]
    dim: int | None
    start: int
    stop: int
    pieces: _Ranges
    rows: _Ranges
    size_bytes: int
    padding_bytes: int


class RankFiles:
    """The files of one layout's ranks, made when asked for. Ranks that hold equal slices share them."""

    def __init__(self, content_id: str, rules: ShardRules, degrees: Degrees, redundant_experts: int) -> None:
        self._content_id = content_id
        self._rules, self._degrees, self._redundant = rules, degrees, redundant_experts
        self._rows: dict[tuple[int, int], tuple[ShardRow, ...]] = {}
        self._texts: dict[tuple[int, int], str] = {}
        self._known: dict[tuple[int, ...], tuple[ShardTensor, ...]] = {}
        self._by_stage: dict[int, list[ShardRow]] | None = None

    def file_of(self, rank: int) -> ShardFile:
        """The rank's file with its tensors, not written yet."""
        at = coordinates_of(rank, self._degrees)
        rows = self._rows_of(at)
        held = [self._held(cut, at) for cut in self._rules.cuts]
        if (at.pp, at.ep) not in self._texts:
            parts = ((name, held[cut]) for name, cut, *_ in rows)
            self._texts[at.pp, at.ep] = _rows_text((name, one.dtype, one.shape, one.size_bytes) for name, one in parts)
        begin = len(_framed(self._texts[at.pp, at.ep], rank, self._degrees, self._content_id))
        key = (at.pp, at.ep, at.tp, at.etp, begin)
        if key not in self._known:
            self._known[key] = tuple(_tensors(rows, held, self._rules.files, begin))
        tensors = self._known[key]
        return ShardFile(rank, rank_path(rank), tensors[-1].end if tensors else begin, None, tensors, begin, len(tensors))

    def _rows_of(self, at: Coordinates) -> tuple[ShardRow, ...]:
        key = (at.pp, at.ep)
        if key not in self._rows:
            cuts = self._rules.cuts
            mine = [self._slots(cut, at) for cut in cuts]
            self._rows[key] = tuple(
                row for row in self._stage(at.pp) if row[4] < 0 or (own := mine[row[1]]) is None or row[4] in own
            )
        return self._rows[key]

    def _stage(self, stage: int) -> list[ShardRow]:
        if self._by_stage is None:
            self._by_stage = defaultdict(list)
            for row in self._rules.tensors:
                for owner in self._rules.cuts[row[1]].stages:
                    self._by_stage[owner].append(row)
        return self._by_stage[stage]

    def _slots(self, cut: ShardCut, at: Coordinates) -> frozenset[int] | None:
        """The experts that the rank has of a cut's; None where it has all."""
        if not cut.experts or cut.stacked:
            return None
        ranges = slots_of(cut.experts, self._redundant, self._degrees.ep)[at.ep]
        return frozenset(expert for first, last in ranges for expert in range(first, last))

    def _held(self, cut: ShardCut, at: Coordinates) -> _Held:
        rows: _Ranges = slots_of(cut.experts, self._redundant, self._degrees.ep)[at.ep] if cut.stacked else ()
        shape, bits = cut.shape, DTYPE_BITS[cut.dtype]
        if rows:
            shape = (sum(last - first for first, last in rows), *shape[1:])
        if cut.dim is None:
            size = prod(shape) * bits // 8
            return _Held(cut.dtype, shape, None, 0, cut.shape[0] if cut.shape else 1, (), rows, size, 0)
        pieces = cut.parts[at.etp if cut.sliced else at.tp]
        shape = (*shape[: cut.dim], cut.local, *shape[cut.dim + 1 :])
        lacking = cut.local - sum(stop - start for start, stop in pieces)
        padding_bytes = lacking * prod(shape) // cut.local * bits // 8 if lacking else 0
        several = pieces if len(pieces) > 1 else ()
        size = prod(shape) * bits // 8
        return _Held(cut.dtype, shape, cut.dim, pieces[0][0], pieces[-1][1], several, rows, size, padding_bytes)


def _tensors(rows: Iterable[ShardRow], held: list[_Held], files: tuple[str, ...], begin: int) -> Iterator[ShardTensor]:
    # A checkpoint has a hundred thousand tensors, and each rank may hold as many: this loop is the sharder's hot one.
    for name, cut, file, _, _ in rows:
        one = held[cut]
        end = begin + one.size_bytes
        yield ShardTensor(name, one.dtype, one.shape, one.dim, one.start, one.stop, files[file], begin, end, one.pieces,
                          one.rows, one.padding_bytes)  # fmt: skip
        begin = end
