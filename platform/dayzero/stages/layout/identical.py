"""Proof after sharding: slices that a layout calls different must not have the same bytes.

A loader whose rank stayed 0 gives shapes that fit and answers that do not (vllm-gguf-plugin#103): digests show it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from dayzero.domain.findings import Finding, Severity
from dayzero.domain.shards import ShardManifest, ShardTensor

_NAMED = 5


@dataclass(frozen=True, slots=True)
class IdenticalSlices:
    """Two ranks whose slices of one tensor should differ and have one digest."""

    name: str
    first_rank: int
    second_rank: int
    size_bytes: int


def identical_slices(manifest: ShardManifest, digests: Mapping[int, Mapping[str, str]]) -> tuple[IdenticalSlices, ...]:
    """The first such pair of each tensor, by name; `digests` are those of each rank's tensors by name.

    Slices without a digest, empty ones and those that are padding alone are not judged. A slice of one value throughout
    equals its neighbours rightly: read the pair before calling it wrong (identical_findings).
    """
    first: dict[tuple[str, str], tuple[ShardTensor, int]] = {}
    found: dict[str, IdenticalSlices] = {}
    for file in manifest.files:
        known = digests.get(file.rank, {})
        for tensor in file.tensors:
            digest, size = known.get(tensor.name), tensor.end - tensor.begin
            if digest is None or tensor.name in found or size <= tensor.padding_bytes:
                continue
            other, rank = first.setdefault((tensor.name, digest), (tensor, file.rank))
            if _slice(other) != _slice(tensor) and other.end - other.begin == size:
                found[tensor.name] = IdenticalSlices(tensor.name, rank, file.rank, size)
    return tuple(found[name] for name in sorted(found))


def identical_findings(pairs: Iterable[IdenticalSlices], constant: Collection[str] = ()) -> tuple[Finding, ...]:
    """One error that names the tensors and ranks; tensors whose slices hold one value throughout are named in a note."""
    pairs = tuple(pairs)
    wrong = [pair for pair in pairs if pair.name not in constant]
    alike = [pair for pair in pairs if pair.name in constant]
    return (
        *_finding("shards.identical", wrong, "tensors are cut, yet two ranks hold the same bytes", Severity.ERROR),
        *_finding("shards.constant", alike, "cut tensors hold one value throughout", Severity.NOTE),
    )


def _slice(tensor: ShardTensor) -> tuple[object, ...]:
    return tensor.dim, tensor.start, tensor.stop, tensor.pieces, tensor.rows


def _finding(code: str, pairs: list[IdenticalSlices], what: str, severity: Severity) -> tuple[Finding, ...]:
    if not pairs:
        return ()
    named = ", ".join(f"{pair.name[:160]} (ranks {pair.first_rank} and {pair.second_rank})" for pair in pairs[:_NAMED])
    more = " …" if len(pairs) > _NAMED else ""
    numbers = {"count": len(pairs), "bytes": sum(pair.size_bytes for pair in pairs)}
    return (Finding(code, pairs[0].name[:160], f"{len(pairs)} {what}: {named}{more}", severity, numbers),)
