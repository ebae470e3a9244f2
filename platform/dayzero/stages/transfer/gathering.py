"""What passed of a source file, had again: from the rank files where they hold it, from the hub where they do not."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dayzero.domain.shards import ShardManifest
from dayzero.domain.tensors import TensorHeader
from dayzero.stages.layout.joining import JoinedTensor, whole_tensors


@dataclass(frozen=True, slots=True)
class Piece:
    """The bytes [begin, end) of a source file: those of a tensor from its first on, or (None) nobody's here."""

    begin: int
    end: int
    tensor: JoinedTensor | None = None


def pieces_before(layout: ShardManifest, headers: Iterable[TensorHeader], to: int) -> tuple[Piece, ...]:
    """The first `to` bytes of a source file in order, rank files of the layout being as far as that.

    A tensor of which the layout's ranks hold no more than parts counts as not here, as does the file's header.
    """
    ordered = sorted((header for header in headers if header.begin < min(to, header.end)), key=lambda header: header.begin)
    return tuple(_merged(_pieces(layout, ordered, to)))


def lacking(pieces: Iterable[Piece]) -> list[tuple[int, int]]:
    """The ranges that are not here."""
    return [(piece.begin, piece.end) for piece in pieces if piece.tensor is None]


def _pieces(layout: ShardManifest, ordered: list[TensorHeader], to: int) -> Iterator[Piece]:
    whole, at = whole_tensors(layout, ordered), 0
    for header in ordered:
        yield Piece(at, header.begin)
        at = min(header.end, to)
        yield Piece(header.begin, at, whole.get(header.name))
    yield Piece(at, to)


def _merged(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Without empty ones, those that are not here joined."""
    gap: Piece | None = None
    for piece in pieces:
        if piece.begin == piece.end:
            continue
        if piece.tensor is None:
            gap = piece if gap is None else Piece(gap.begin, piece.end)
            continue
        if gap is not None:
            yield gap
        gap = None
        yield piece
    if gap is not None:
        yield gap
