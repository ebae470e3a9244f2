"""Fingerprints as numbers and as text."""

import sys
from array import array
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Iterable
from dataclasses import dataclass

from dayzero.domain.fingerprints import STATISTICS, RankPrints, TensorPrint
from dayzero.errors import BadInputError


@dataclass(frozen=True, slots=True)
class BlockPrint:
    """One block of tokens: projections, Euclidean norm, largest magnitude, and elements that are not finite."""

    sketch: tuple[float, ...]
    norm: float
    largest: float
    nonfinite: int


def pack(figures: Iterable[float]) -> str:
    """Base64 of little-endian float32; a number beyond float32 becomes infinite."""
    numbers = array("f", figures)
    if sys.byteorder == "big":
        numbers.byteswap()
    return b64encode(numbers.tobytes()).decode()


def unpack(printed: TensorPrint, projections: int) -> tuple[BlockPrint, ...]:
    """The blocks of a print; BadInputError where its figures are no whole number of them."""
    numbers = array("f")
    width = projections + STATISTICS
    try:
        numbers.frombytes(b64decode(printed.figures, validate=True))
    except (Error, ValueError) as error:
        raise BadInputError(f"the fingerprint of {printed.module} cannot be read: {error}.") from error
    if not numbers or len(numbers) % width:
        raise BadInputError(f"the fingerprint of {printed.module} has {len(numbers)} numbers; blocks have {width}.")
    if sys.byteorder == "big":
        numbers.byteswap()
    rows = (numbers[at : at + width] for at in range(0, len(numbers), width))
    return tuple(BlockPrint(tuple(row[:projections]), row[-3], row[-2], _count(row[-1])) for row in rows)


def _count(number: float) -> int:
    return int(number) if number == number and number < 2**53 else 0


def token_range(run: RankPrints, block: int) -> tuple[int, int]:
    """First and last token of a block."""
    return block * run.token_block, min(run.tokens, (block + 1) * run.token_block) - 1
