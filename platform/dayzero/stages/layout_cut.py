"""Cutting one tensor: the slice that a rank gets, or why it cannot be cut."""

from dataclasses import dataclass

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.canonical import Numbers
from dayzero.domain.tensors import DTYPE_BITS, TensorHeader
from dayzero.errors import BadInputError
from dayzero.stages.layout_names import Leaf, TensorPlace
from dayzero.stages.layout_partition import Partition, PartitionKind
from dayzero.stages.structure_families import FAMILIES


class UncuttableError(BadInputError):
    """A tensor that the degrees cannot cut: family of the reason, the reason, and its figures."""

    def __init__(self, family: str, reason: str, numbers: Numbers) -> None:
        self.family = family
        self.reason = reason
        self.numbers = numbers
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class Cut:
    """A slice: [start, stop) along dim (None: the whole), the local shape and its bytes."""

    dim: int | None
    start: int
    stop: int
    shape: tuple[int, ...]
    size_bytes: int


def cut(header: TensorHeader, place: TensorPlace, partition: Partition, spec: ModelSpec) -> Cut:
    """The slice of the tensor that the partition gives; UncuttableError says why there is none."""
    dim = partition.dim
    if dim is None or partition.parts == 1 or _has_one_scale(header, place, dim):
        return Cut(None, 0, header.shape[0] if header.shape else 1, header.shape, header.size_bytes)
    if dim >= len(header.shape):
        raise UncuttableError("shape", f"{header.name} has {len(header.shape)} dimensions; number {dim} should be cut", {})
    if partition.kind is not PartitionKind.EXPERT:
        _require_layout(header, place, spec)
    size = header.shape[dim]
    if size % partition.parts:
        raise UncuttableError("tensor size", f"{header.name}: {size} does not divide by {partition.parts}",
                              {"size": size, "parts": partition.parts})  # fmt: skip
    local = size // partition.parts
    _require_blocks(header, spec, dim, local)
    shape = (*header.shape[:dim], local, *header.shape[dim + 1 :])
    if shape and shape[-1] * DTYPE_BITS[header.dtype] % 8:
        raise UncuttableError("tensor size", f"{header.name}: {local} elements of {header.dtype} do not end on a byte",
                              {"size": local})  # fmt: skip
    return Cut(dim, partition.part * local, (partition.part + 1) * local, shape, header.size_bytes // partition.parts)


def _has_one_scale(header: TensorHeader, place: TensorPlace, dim: int) -> bool:
    return place.leaf is Leaf.SCALE and (dim >= len(header.shape) or header.shape[dim] == 1)


_CUTTABLE = ("weight", "weight_scale_inv", "weight_scale", "input_scale", "bias", "", "_blocks", "_scales", "_bias")


def _require_layout(header: TensorHeader, place: TensorPlace, spec: ModelSpec) -> None:
    packed = place.suffix not in _CUTTABLE or (place.suffix == "weight" and header.dtype in ("U8", "I32", "U32"))
    if packed:
        method = spec.quantization.method if spec.quantization else "unnamed"
        raise UncuttableError("quantization", f"{header.name} is packed ({method}, {header.dtype}); how it is cut is not known",
                              {"method": method})  # fmt: skip
    concatenated = place.module.endswith("gate_up_proj") and FAMILIES[spec.family or ""].experts != "fused"
    if concatenated:
        raise UncuttableError("fused tensor", f"{header.name} holds gate and up projections one after the other; one slice "
                              "cannot hold both halves", {})  # fmt: skip


def _require_blocks(header: TensorHeader, spec: ModelSpec, dim: int, local: int) -> None:
    block = spec.quantization.block_shape if spec.quantization else None
    if block is None or not header.dtype.startswith("F8") or dim >= len(block) or len(header.shape) != len(block):
        return
    if local % block[dim]:
        raise UncuttableError("block quantization", f"{header.name}: {local} a rank is no multiple of the quantization block "
                              f"{block[dim]}", {"size": header.shape[dim], "local": local, "block": block[dim]})  # fmt: skip
