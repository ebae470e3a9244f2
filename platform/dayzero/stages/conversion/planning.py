"""Which tensors a conversion changes, into which others; everything else keeps its bytes."""

import re
from collections.abc import Iterator, Mapping

from dayzero.domain.architecture import Quantization
from dayzero.domain.conversion import Conversion, ConversionKind, ConversionPlan, NewTensor, WeightFormat
from dayzero.domain.tensors import CheckpointIndex, TensorHeader
from dayzero.errors import BadInputError
from dayzero.stages.layout.scales import scale_of, without_scale
from dayzero.stages.parameters.weights import BLOCK

MX_BLOCK = 32
"""Elements that share a scale in the MX formats (OCP Microscaling Formats 1.0)."""

_LAYER = re.compile(r"(^|\.)(layers|h|blocks)\.\d+\.")
_LINEAR = re.compile(r"(_proj|_proj_with_mqa|\.(w[123]|qkv|fc[12]|in_proj|out_proj))$")
_PARTS = ("weight_packed", "weight_scale", "weight_shape", "weight_zero_point", "weight_g_idx")

_Tensors = Mapping[str, TensorHeader]


def plan_conversion(index: CheckpointIndex, quantization: Quantization | None, target: WeightFormat) -> ConversionPlan:
    """The conversion of a checkpoint to a format.

    BadInputError: it is in that format already, its quantization is none that can be read here, or tensors of one weight do
    not belong together.
    """
    tensors = {tensor.name: tensor for tensor in index.tensors}
    if target is WeightFormat.BFLOAT16:
        made, taken = _unpacked(tensors, quantization)
        untouched: tuple[str, ...] = ()
    else:
        made, untouched = _packed(tensors, quantization)
        taken = set(made)
    kept = {
        name: Conversion(ConversionKind.KEEP, tensor, (NewTensor(name, tensor.dtype, tensor.shape),))
        for name, tensor in tensors.items()
        if name not in taken
    }
    _require_new_names(made, kept)
    return ConversionPlan(target, _by_file({**kept, **made}), untouched)


def _by_file(conversions: Mapping[str, Conversion]) -> tuple[tuple[str, tuple[Conversion, ...]], ...]:
    ordered = sorted(conversions.values(), key=lambda one: (one.values.file, one.values.begin, one.values.name))
    files: dict[str, list[Conversion]] = {}
    for one in ordered:
        files.setdefault(one.values.file, []).append(one)
    return tuple((file, tuple(files[file])) for file in sorted(files))


def _require_new_names(made: Mapping[str, Conversion], kept: Mapping[str, Conversion]) -> None:
    names = [output.name for one in (*made.values(), *kept.values()) for output in one.outputs]
    twice = next((name for name in names if len(names) != len(set(names)) and names.count(name) > 1), None)
    if twice is not None:
        raise BadInputError(
            f"{twice} is in the checkpoint, and is what another tensor would be converted to.",
            remedy="Its publisher has to rename one of them.",
        )


def _unpacked(tensors: _Tensors, quantization: Quantization | None) -> tuple[dict[str, Conversion], set[str]]:
    """Conversions to bfloat16 by the name of their values, and all names that they use up."""
    made: dict[str, Conversion] = {}
    taken: set[str] = set()
    for read in (_from_fp8, _from_mxfp4, _from_int4):
        for one, used in read(tensors, quantization):
            made[one.values.name] = one
            taken |= used
    bare = without_scale(tensors.values())
    if bare:
        raise BadInputError(
            f"{bare[0]} is in 8-bit floats and has no scale beside it: its values cannot be known.",
            remedy="Fetch the model again; where its publisher left the scales out, take another release.",
        )
    left = next((tensor for tensor in tensors.values() if tensor.name not in taken and _is_packed(tensor)), None)
    if left is not None:
        method = quantization.method if quantization else "unnamed"
        raise BadInputError(
            f"{left.name} is {left.dtype} {list(left.shape)}, quantized by {method} in a way that cannot be converted here.",
            remedy="FP8 in blocks, MXFP4 (gpt-oss) and 4-bit pack-quantized (compressed-tensors) can.",
        )
    if not made:
        raise BadInputError(
            "no tensor of this checkpoint is quantized: there is nothing to convert to bfloat16.", remedy="Use it as it is."
        )
    return made, taken


def _is_packed(tensor: TensorHeader) -> bool:
    integers = len(tensor.shape) >= 2 and tensor.dtype in ("I8", "U8", "I32", "U32") and not tensor.name.endswith("tid2eid")
    return tensor.dtype.startswith("F8_") or tensor.dtype == "F4" or integers


def _from_fp8(tensors: _Tensors, quantization: Quantization | None) -> Iterator[tuple[Conversion, set[str]]]:
    stated = (quantization.block_shape if quantization else None) or BLOCK
    block = (stated[0], stated[-1])
    for name, tensor in tensors.items():
        if tensor.dtype != "F8_E4M3" or len(tensor.shape) < 2:
            continue
        named = scale_of(name, tensors)
        if named is None:
            continue
        scales = tensors[named]
        grid = (*tensor.shape[:-2], -(-tensor.shape[-2] // block[0]), -(-tensor.shape[-1] // block[1]))
        _require(scales.shape == grid, scales, f"{list(grid)} of blocks of {block[0]} × {block[1]} for {name}")
        _require(scales.dtype in ("F32", "BF16", "F8_E8M0", "U8"), scales, "scales in F32, BF16 or E8M0")
        new = NewTensor(name, "BF16", tensor.shape)
        yield Conversion(ConversionKind.FROM_FP8_BLOCK, tensor, (new,), scales, block=block), {name, scales.name}


def _from_mxfp4(tensors: _Tensors, _quantization: Quantization | None) -> Iterator[tuple[Conversion, set[str]]]:
    for name, tensor in tensors.items():
        scales = tensors.get(f"{name.removesuffix('_blocks')}_scales")
        if not name.endswith("_blocks") or scales is None:
            continue
        shape = tensor.shape
        _require(tensor.dtype == "U8" and len(shape) == 4 and shape[3] == MX_BLOCK // 2, tensor,
                 f"U8 [experts, rows, groups, {MX_BLOCK // 2}]")  # fmt: skip
        _require(scales.dtype in ("U8", "F8_E8M0") and scales.shape == shape[:3], scales, f"one scale a group of {name}")
        # gpt-oss multiplies by [experts, input, output]; its blocks lie along the input.
        new = NewTensor(name.removesuffix("_blocks"), "BF16", (shape[0], shape[2] * MX_BLOCK, shape[1]))
        one = Conversion(ConversionKind.FROM_MXFP4, tensor, (new,), scales, block=(1, MX_BLOCK))
        yield one, {name, scales.name}


def _from_int4(tensors: _Tensors, quantization: Quantization | None) -> Iterator[tuple[Conversion, set[str]]]:
    for name, tensor in tensors.items():
        if not name.endswith(".weight_packed"):
            continue
        module = name.removesuffix("weight_packed")
        parts = {part: tensors[module + part] for part in _PARTS if module + part in tensors}
        yield _int4(tensor, parts, quantization), {part.name for part in parts.values()}


def _int4(tensor: TensorHeader, parts: _Tensors, quantization: Quantization | None) -> Conversion:
    scales, zeros = parts.get("weight_scale"), parts.get("weight_zero_point")
    if scales is None:
        raise BadInputError(f"{tensor.name} has no weight_scale beside it.", remedy="Fetch the model again.")
    _require("weight_g_idx" not in parts, tensor, "groups in the order of inputs (this one has weight_g_idx)")
    _require(tensor.dtype == "I32" and len(tensor.shape) == 2, tensor, "I32 [rows, words]")
    rows, words = tensor.shape
    _require(len(scales.shape) == 2 and scales.shape[0] == rows, scales, f"scales for {rows} rows")
    _require(scales.dtype in ("BF16", "F16", "F32"), scales, "scales in BF16, F16 or F32")
    sizes = [group.group_size for group in quantization.groups if group.bits == 4] if quantization else []
    groups = scales.shape[1]
    size = next((one for one in sizes if one and one * groups <= words * 8 < one * groups + 8), None)
    if size is None:
        # One scale a row, or a size that no group of the configuration states: a whole number of inputs, all words full.
        _require(groups > 0 and words * 8 % groups == 0, scales, f"whole groups of the {words * 8} inputs of {tensor.name}")
        size = words * 8 // groups
    _require(groups == 1 or size % 2 == 0, scales, "groups of whole bytes")
    if zeros is not None:
        _require(zeros.dtype == "I32" and zeros.shape == (-(-rows // 8), groups), zeros, f"zero points for {rows} rows")
    new = NewTensor(tensor.name.removesuffix("_packed"), "BF16", (rows, size * groups))
    return Conversion(ConversionKind.FROM_INT4, tensor, (new,), scales, zeros, (1, size))


def _packed(tensors: _Tensors, quantization: Quantization | None) -> tuple[dict[str, Conversion], tuple[str, ...]]:
    """Conversions to FP8 in blocks, and the modules that stay as they are (by the end of their path)."""
    packed = next((tensor for tensor in tensors.values() if _is_packed(tensor)), None)
    if packed is not None or quantization is not None:
        method = quantization.method if quantization else f"{packed.dtype if packed else 'no'} tensors"
        raise BadInputError(f"the checkpoint is quantized already ({method}).", remedy="Convert it --to bfloat16 first.")
    # A tied head has no tensor, and still a module that loaders would convert.
    made, left = {}, {"lm_head"}
    for name, tensor in tensors.items():
        if _is_layer_matrix(tensor):
            made[name] = _to_fp8(tensor)
        elif len(tensor.shape) >= 2 and name.endswith(".weight"):
            left.add(".".join(name.removesuffix(".weight").split(".")[-2:]))
    if not made:
        raise BadInputError(
            "no BF16 weight of a linear module was found in the checkpoint: there is nothing to convert.",
            remedy="Use it as it is, or convert it to bfloat16 first.",
        )
    return made, tuple(sorted(left))


def _is_layer_matrix(tensor: TensorHeader) -> bool:
    """Linear weights inside of layers; embeddings, head, routers, norms and convolutions stay (as DeepSeek-V3 does it)."""
    module = tensor.name.removesuffix(".weight")
    stacked = len(tensor.shape) == 3 and ".experts." in tensor.name
    matrix = len(tensor.shape) == 2 and tensor.name.endswith(".weight")
    inside = _LAYER.search(tensor.name) is not None and _LINEAR.search(module) is not None and "conv" not in module
    return tensor.dtype == "BF16" and inside and (stacked or matrix)


def _to_fp8(tensor: TensorHeader) -> Conversion:
    rows, columns = tensor.shape[-2:]
    grid = (*tensor.shape[:-2], -(-rows // BLOCK[0]), -(-columns // BLOCK[1]))
    outputs = (NewTensor(tensor.name, "F8_E4M3", tensor.shape), NewTensor(f"{tensor.name}_scale_inv", "F32", grid))
    return Conversion(ConversionKind.TO_FP8_BLOCK, tensor, outputs, block=BLOCK)


def _require(holds: bool, tensor: TensorHeader, what: str) -> None:
    if not holds:
        raise BadInputError(f"{tensor.name} is {tensor.dtype} {list(tensor.shape)}; {what} was expected.",
                            remedy="See whether config.json and the weights belong together.")  # fmt: skip
