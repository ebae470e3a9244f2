"""Weights that change their format: which tensors of a checkpoint become which others."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from dayzero.domain.tensors import CheckpointIndex, TensorHeader


class WeightFormat(StrEnum):
    """A format that a checkpoint can be converted to."""

    BFLOAT16 = "bfloat16"
    FP8_BLOCK = "fp8-block"
    SAFETENSORS = "safetensors"


class ConversionKind(StrEnum):
    """What happens to a tensor on the way."""

    KEEP = "keep"
    FROM_FP8_BLOCK = "from_fp8_block"
    FROM_MXFP4 = "from_mxfp4"
    FROM_INT4 = "from_int4"
    TO_FP8_BLOCK = "to_fp8_block"


@dataclass(frozen=True, slots=True)
class Unpickled:
    """What came out of a release's pickles: files written, tensors in them, and their bytes."""

    files: tuple[str, ...]
    tensors: int
    weight_bytes: int


@dataclass(frozen=True, slots=True)
class Converted:
    """A checkpoint that was made here: its tensors, and the sha256 of each of its files as it was written."""

    index: CheckpointIndex
    digests: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NewTensor:
    """A tensor that a conversion writes: name, safetensors dtype, shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Conversion:
    """One tensor with what describes it, and what it becomes.

    `block` is the shape of the values that share a scale: (rows, columns); (1, group) where a scale is for a stretch of a
    row. The first of `outputs` holds values, a second one their scales.
    """

    kind: ConversionKind
    values: TensorHeader
    outputs: tuple[NewTensor, ...]
    scales: TensorHeader | None = None
    zero_points: TensorHeader | None = None
    block: tuple[int, int] = (1, 1)


@dataclass(frozen=True, slots=True)
class ConversionPlan:
    """All of a checkpoint, file by file in the order of the source; `untouched` modules keep their format."""

    target: WeightFormat
    files: tuple[tuple[str, tuple[Conversion, ...]], ...]
    untouched: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How many tensors of each kind."""
        kinds = [one.kind.value for _, conversions in self.files for one in conversions]
        return {kind: kinds.count(kind) for kind in sorted(set(kinds))}
