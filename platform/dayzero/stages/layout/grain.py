"""Along which stored dimension a tensor is cut, and how many logical elements one stored element stands for there."""

from dataclasses import dataclass

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.tensors import TensorHeader
from dayzero.stages.layout.names import Leaf, TensorPlace
from dayzero.stages.layout.runs import Rule, UncuttableError
from dayzero.stages.structure.families import family_of

TRANSPOSED = ("gptq", "awq", "gptq_marlin", "awq_marlin", "auto-round")
"""Methods that store a weight as [input, output] (AutoGPTQ, AutoAWQ)."""

_DESCRIBING = ("weight_shape",)
"""Tensors that describe the whole weight and are the same on every rank."""

_BLOCK = 128
"""The block of a scale where the configuration states none (DeepSeek-V3)."""


@dataclass(frozen=True, slots=True)
class Grain:
    """`size` logical elements stand behind one stored element along `dim`; pieces are multiples of `block` too."""

    dim: int
    size: int
    block: int
    quantized: bool


def grain_of(header: TensorHeader, place: TensorPlace, rule: Rule, spec: ModelSpec) -> Grain | None:
    """Where and in which steps the tensor is cut; None when it is the same for every part (one scale for all).

    UncuttableError: the stored size is not what the structure leads to, or its packing is not known.
    """
    shape = header.shape
    if place.suffix in _DESCRIBING or not shape:
        return None
    dim = _dim_of(header, place, rule, spec)
    if dim is None or dim >= len(shape):
        if place.leaf is Leaf.VALUE and len(shape) <= 1:
            raise UncuttableError("shape", f"{header.name} has {len(shape)} dimensions; number {dim} should be cut", {})
        return None
    stored, logical = shape[dim], rule.extent
    if place.leaf is Leaf.SCALE and stored == 1:
        return None
    _require_order(header, place, rule, spec)
    if stored == logical:
        return Grain(dim, 1, _value_block(header, rule, spec), True)
    size = _grain(stored, logical, spec)
    packed = place.leaf is not Leaf.SCALE and header.dtype in ("I32", "U32", "U8", "I8", "I64")
    if size is None or not (packed or place.leaf is Leaf.SCALE):
        raise UncuttableError("tensor size", f"{header.name}: {stored} along dimension {dim}; the structure says {logical}",
                              {"size": stored, "expected": logical})  # fmt: skip
    return Grain(dim, size, size, not packed or place.suffix == "_blocks")


def _require_order(header: TensorHeader, place: TensorPlace, rule: Rule, spec: ModelSpec) -> None:
    """GPTQ with act order sorts inputs by their group: a slice of inputs needs scales of all groups."""
    quantization = spec.quantization
    if quantization is None or not quantization.act_order or rule.axis != 1:
        return
    if place.leaf is Leaf.SCALE or place.suffix in ("qweight", "weight_packed"):
        raise UncuttableError("quantization", f"{header.name}: act order mixes the groups of all inputs, so inputs "
            "cannot be cut", {"method": quantization.method})  # fmt: skip


def _dim_of(header: TensorHeader, place: TensorPlace, rule: Rule, spec: ModelSpec) -> int | None:
    shape, axis = header.shape, rule.axis
    if axis > 1:
        return axis
    if rule.fused:
        return _fused_dim(header, place, rule, spec)
    if len(shape) == 1:
        return 0 if (axis == 1) == (place.suffix in ("g_idx", "weight_g_idx")) else None
    method = spec.quantization.method if spec.quantization else None
    transposed = method in TRANSPOSED and place.suffix in ("qweight", "qzeros", "scales")
    return 1 - axis if transposed else axis


def _fused_dim(header: TensorHeader, place: TensorPlace, rule: Rule, spec: ModelSpec) -> int | None:
    """Of [experts, output, input], or [experts, input, output] as gpt-oss, Llama-4 and Qwen3-VL publish values."""
    shape = header.shape
    if len(shape) == 2:
        return 1 if rule.axis == 0 else None
    if len(shape) < 2:
        return None
    family = family_of(spec)
    if place.suffix or place.leaf is Leaf.SCALE:
        return 1 + rule.axis
    turned = _turned(shape, rule, spec, place)
    if turned is None and family is not None and family.experts == "fused":
        turned = True
    if turned is None:
        reason = f"{header.name} has the shape {list(shape)}: which dimension is the output is unknown"
        raise UncuttableError("fused tensor", reason, {})
    return 2 - rule.axis if turned else 1 + rule.axis


def _turned(shape: tuple[int, ...], rule: Rule, spec: ModelSpec, place: TensorPlace) -> bool | None:
    """Whether values are [experts, input, output]; None where the sizes do not tell."""
    plain, turned = shape[1 + rule.axis] == rule.extent, shape[2 - rule.axis] == rule.extent
    return None if plain == turned else turned


def _value_block(header: TensorHeader, rule: Rule, spec: ModelSpec) -> int:
    """Values in blocks that share a scale are cut between blocks only."""
    block = spec.quantization.block_shape if spec.quantization else None
    if not block or not header.dtype.startswith("F8_E") or header.dtype == "F8_E8M0" or len(header.shape) < 2:
        return 1
    return block[min(rule.axis, len(block) - 1)]


def _grain(stored: int, logical: int, spec: ModelSpec) -> int | None:
    """Logical elements a stored one: a stated block or group (the last one may be ragged), else an exact ratio."""
    quantization = spec.quantization
    stated = [*(quantization.block_shape or (_BLOCK,)), *(group.group_size or 0 for group in quantization.groups)] if (
        quantization) else []  # fmt: skip
    for size in stated:
        if size > 0 and -(-logical // size) == stored:
            return size
    return logical // stored if stored and logical % stored == 0 else None
