"""Proof after sharding: slices that a layout calls different must not have the same bytes.

A loader whose rank stayed 0 gives shapes that fit and answers that do not (vllm-gguf-plugin#103): digests show it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dayzero.domain.findings import Finding, Severity
from dayzero.domain.shards import ShardManifest, ShardTensor
from dayzero.stages.layout.names import Leaf, place_of

_NAMED = 5
_LEAST_BYTES = 64
"""Fewer may be alike by chance, in models made for tests."""

_HEADS = re.compile(r"\.[kv]_proj\.")


@dataclass(frozen=True, slots=True)
class IdenticalSlices:
    """Two ranks whose slices of one tensor should differ and have one digest."""

    name: str
    first_rank: int
    second_rank: int
    size_bytes: int


def identical_slices(
    manifest: ShardManifest, digests: Mapping[int, Mapping[str, str]] | None = None
) -> tuple[IdenticalSlices, ...]:
    """The first such pair of each tensor, by name; `digests` are those of each rank's tensors by name (None: those that the
    manifest records; a folded one has no tensors and is not judged).

    Only matrices of values are judged, of 64 bytes and more and beyond their padding: biases, norms, scales and packed zero
    points may rightly hold one value throughout.
    """
    digests = recorded_digests(manifest) if digests is None else digests
    first: dict[tuple[str, str], tuple[ShardTensor, int]] = {}
    found: dict[str, IdenticalSlices] = {}
    for file in manifest.files:
        known = digests.get(file.rank, {})
        for tensor in file.tensors:
            digest, size = known.get(tensor.name), tensor.end - tensor.begin
            if digest is None or tensor.name in found or not _is_judged(tensor, size):
                continue
            other, rank = first.setdefault((tensor.name, digest), (tensor, file.rank))
            if _slice(other) != _slice(tensor) and other.end - other.begin == size:
                found[tensor.name] = IdenticalSlices(tensor.name, rank, file.rank, size)
    return tuple(found[name] for name in sorted(found))


def recorded_digests(manifest: ShardManifest) -> Mapping[int, Mapping[str, str]]:
    """The digests that a written manifest records, by rank and tensor."""
    return {
        file.rank: dict(zip((tensor.name for tensor in file.tensors), file.tensor_digests, strict=True))
        for file in manifest.files
        if file.tensors and file.tensor_digests
    }


def identical_findings(pairs: Iterable[IdenticalSlices]) -> tuple[Finding, ...]:
    """One finding that names the tensors and ranks: an error, or a warning where nothing but keys and values are alike, which
    some publishers store once for each of more ranks than they have heads."""
    found = tuple(pairs)
    heads = all(_HEADS.search(pair.name) for pair in found)
    severity = Severity.WARNING if heads else Severity.ERROR
    return _finding("shards.identical", found, "tensors are cut, yet two ranks hold the same bytes", severity)


def _slice(tensor: ShardTensor) -> tuple[object, ...]:
    return tensor.dim, tensor.start, tensor.stop, tensor.pieces, tensor.rows


def _is_judged(tensor: ShardTensor, size_bytes: int) -> bool:
    if len(tensor.shape) < 2 or size_bytes < _LEAST_BYTES or size_bytes <= tensor.padding_bytes:
        return False
    return place_of(tensor.name, None).leaf is Leaf.VALUE


def _finding(code: str, pairs: tuple[IdenticalSlices, ...], what: str, severity: Severity) -> tuple[Finding, ...]:
    if not pairs:
        return ()
    named = ", ".join(f"{pair.name[:160]} (ranks {pair.first_rank} and {pair.second_rank})" for pair in pairs[:_NAMED])
    more = " …" if len(pairs) > _NAMED else ""
    numbers = {"count": len(pairs), "bytes": sum(pair.size_bytes for pair in pairs)}
    return (Finding(code, pairs[0].name[:160], f"{len(pairs)} {what}: {named}{more}", severity, numbers),)
