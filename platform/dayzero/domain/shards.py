"""Sharded weights: which rank holds which slice of which tensor, and where it lies."""

from dataclasses import dataclass
from enum import StrEnum

from dayzero.domain.planning import Degrees


class Integrity(StrEnum):
    """What is computed of a source file as it passes."""

    SHA256 = "sha256"
    NONE = "none"


class WeightsState(StrEnum):
    """How far the bytes of shards are known to be those that their release states.

    HASHED: every source file passed here whole, with its stated hash. VOUCHED: a trusted node of the site made the same rank
    files of whole, hashed files. UNVERIFIED: neither.
    """

    HASHED = "hashed"
    VOUCHED = "vouched"
    UNVERIFIED = "unverified"


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
    """One file of one rank; a folded one has no `tensors`, and `tensor_count` says how many the file holds.

    `tensor_digests`: the xxh3_128 of each tensor's bytes in the file, in their order; they are kept beside the file, a folded
    one has none. `digest`: the sha256 over the file's header and those digests (16 bytes each); None in a layout that has not
    been written yet.
    """

    rank: int
    path: str
    size_bytes: int
    digest: str | None
    tensors: tuple[ShardTensor, ...]
    header_bytes: int = 0
    tensor_count: int = 0
    tensor_digests: tuple[str, ...] = ()

    @property
    def weight_bytes(self) -> int:
        """Bytes of tensors in the file (its header not counted)."""
        if self.header_bytes:
            return self.size_bytes - self.header_bytes
        return sum(tensor.end - tensor.begin for tensor in self.tensors)


@dataclass(frozen=True, slots=True)
class ShardCut:
    """How all tensors of one kind are dealt out, each of this dtype and whole shape.

    The pipeline `stages` hold them. `dim` None: whole; else `parts` are the pieces [start, stop) along dim of each tp rank, or
    where `sliced` of each etp rank, and each holds `local` elements there, zeros behind the pieces where those are fewer.
    Where `experts` is not 0, expert-parallel ranks have only their slots of so many: rows of the first dimension where
    `stacked`, else the tensors that belong to those experts.
    """

    dtype: str
    shape: tuple[int, ...]
    stages: tuple[int, ...]
    dim: int | None = None
    parts: tuple[tuple[tuple[int, int], ...], ...] = ()
    local: int = 0
    sliced: bool = False
    experts: int = 0
    stacked: bool = False


ShardRow = tuple[str, int, int, int, int]
"""A tensor's name, which of the cuts is its own, which of the files has it from which byte, and its expert (-1: of none)."""


@dataclass(frozen=True, slots=True)
class ShardRules:
    """One row for each tensor, in the order in which rank files hold them; what each rank holds follows from it and the
    degrees (stages.layout.ranks). `files` are those of the checkpoint."""

    cuts: tuple[ShardCut, ...]
    files: tuple[str, ...]
    tensors: tuple[ShardRow, ...]


@dataclass(frozen=True, slots=True)
class ShardSource:
    """A file of the checkpoint that passed. `sha256` is that of the bytes that passed (None: not computed), or their git blob
    id where the release states no other digest; `verified` whether it is the one that the release states."""

    path: str
    size_bytes: int
    sha256: str | None
    verified: bool


@dataclass(frozen=True, slots=True)
class SmallFile:
    """A small file of the release (configuration, tokenizer) that lies beside the shards under its own plain name."""

    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ShardManifest:
    """Shards of one checkpoint under one plan: all of them, or those of the ranks that were asked for.

    A folded manifest has no tensors in its files; they follow from the rules (stages.layout.ranks: fold, unfold). A written one
    says which `sources` passed, has the digest of the layout that it was written by, names what lies `beside` the shards, and
    in `vouched_by` the key that signed for its sources, where they did not pass here ("": none).
    """

    content_id: str
    degrees: Degrees
    files: tuple[ShardFile, ...]
    redundant_experts: int = 0
    rules: ShardRules | None = None
    sources: tuple[ShardSource, ...] = ()
    layout_digest: str = ""
    beside: tuple[SmallFile, ...] = ()
    vouched_by: str = ""

    @property
    def source_files(self) -> tuple[str, ...]:
        """The files of the checkpoint that its tensors are taken from, sorted."""
        return tuple(sorted({tensor.file for file in self.files for tensor in file.tensors}))

    @property
    def verified(self) -> bool:
        """Whether every source passed whole with its stated hash, or a node of this site vouches for the same bytes."""
        return bool(self.sources) and all(source.verified for source in self.sources)

    @property
    def state(self) -> WeightsState:
        """What stands behind its bytes."""
        if not self.verified:
            return WeightsState.UNVERIFIED
        return WeightsState.VOUCHED if self.vouched_by else WeightsState.HASHED

    def rank_weight_bytes(self, rank: int) -> int:
        """Bytes of tensors that the rank holds."""
        return sum(file.weight_bytes for file in self.files if file.rank == rank)
