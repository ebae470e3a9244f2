"""Sharded weights: which rank holds which slice of which tensor, and where it lies."""

from dataclasses import dataclass

from dayzero.domain.planning import Degrees


@dataclass(frozen=True, slots=True)
class ShardTensor:
    """A rank's part of one tensor: `dim` None means the whole of it, else the slice [start, stop) along dim, or where there
    are several the `pieces` in their order.

    `rows` are the ranges of the first dimension (experts) that the rank has; () for all. The last `padding_bytes` are zeros
    beyond the tensor's end. `begin` and `end` are absolute byte offsets in the rank's file.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    dim: int | None
    start: int
    stop: int
    file: str
    begin: int
    end: int
    pieces: tuple[tuple[int, int], ...] = ()
    rows: tuple[tuple[int, int], ...] = ()
    padding_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ShardFile:
    """One file of one rank. `sha256` is None in a layout that has not been written yet."""

    rank: int
    path: str
    size_bytes: int
    sha256: str | None
    tensors: tuple[ShardTensor, ...]

    @property
    def weight_bytes(self) -> int:
        """Bytes of tensors in the file (its header not counted)."""
        return sum(tensor.end - tensor.begin for tensor in self.tensors)


@dataclass(frozen=True, slots=True)
class ShardManifest:
    """All shards of one checkpoint under one plan."""

    content_id: str
    degrees: Degrees
    files: tuple[ShardFile, ...]
    redundant_experts: int = 0

    def rank_weight_bytes(self, rank: int) -> int:
        """Bytes of tensors that the rank holds."""
        return sum(file.weight_bytes for file in self.files if file.rank == rank)
