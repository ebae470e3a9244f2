"""Headers that a checkpoint will have, from the structure alone: what pre-staging plans with."""

from collections.abc import Iterator
from math import prod

from dayzero.domain.architecture import ModelSpec, Quantization
from dayzero.domain.findings import Finding
from dayzero.domain.tensors import DTYPE_BITS, CheckpointIndex, TensorHeader
from dayzero.stages.parameters import expected_tensors
from dayzero.stages.parameters_expected import ExpectedTensor
from dayzero.stages.quantization_targets import ModuleNames, is_linear, module_of

_DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}
_MX_BLOCK = 32
"""Elements that share a scale in the MX formats (OCP Microscaling Formats 1.0)."""

_Stored = tuple[str, str, tuple[int, ...]]


def predicted_index(spec: ModelSpec) -> CheckpointIndex | None:
    """The tensors that a checkpoint of the structure holds, or None when the structure or the dtype is unknown.

    Stored as the native dtype, as 8-bit blocks with float32 scales (fp8 with a block shape, as DeepSeek-V3 stores them) or,
    for fused experts, as 4-bit blocks with 8-bit scales (mxfp4, as gpt-oss does); any other quantization is predicted
    unquantized, which is more than it will take. The finding `plan.predicted_weights` says what was done.
    """
    native = _DTYPES.get(spec.native_dtype or "")
    tensors = expected_tensors(spec)
    if native is None or not tensors:
        return None
    ignored = ModuleNames(spec.quantization.ignored_modules if spec.quantization else ())
    at, headers = 0, []
    for tensor in tensors:
        for suffix, dtype, shape in _stored(tensor, spec.quantization, native, ignored):
            size = prod(shape) * DTYPE_BITS[dtype] // 8
            for expert in range(tensor.experts):
                name = tensor.name.replace("{e}", str(expert)) + suffix
                full = _path(tensor, name)
                headers.append(TensorHeader(full, dtype, shape, "predicted", at, at + size))
                at += size
    message = f"weight bytes are predicted from the structure in {spec.native_dtype}: there are no headers yet"
    if spec.quantization is not None:
        taken = "was taken into account" if _is_modelled(spec.quantization) else "was not, and will make them fewer"
        message += f"; quantization ({spec.quantization.method}) {taken}"
    finding = Finding("plan.predicted_weights", "weights", message, numbers={"weight_bytes": at})
    return CheckpointIndex(tuple(sorted(headers, key=lambda header: header.name)), (finding,))


def _path(tensor: ExpectedTensor, name: str) -> str:
    if tensor.component == "head":
        return name
    return f"model.{name}" if tensor.layer is None else f"model.layers.{tensor.layer}.{name}"


def _is_modelled(quantization: Quantization) -> bool:
    return quantization.method == "mxfp4" or (quantization.method == "fp8" and len(quantization.block_shape or ()) == 2)


def _stored(tensor: ExpectedTensor, quantization: Quantization | None, native: str, ignored: ModuleNames) -> Iterator[_Stored]:
    if quantization is None or not _is_modelled(quantization) or ignored.match(module_of(tensor)):
        yield "", native, tensor.shape
    elif quantization.method == "mxfp4":
        yield from _mx_blocks(tensor, native)
    elif is_linear(tensor) and tensor.name.endswith(".weight") and len(tensor.shape) == 2:
        rows, columns = tensor.shape
        high, wide = quantization.block_shape or (1, 1)
        yield "", "F8_E4M3", tensor.shape
        yield "_scale_inv", "F32", (-(-rows // high), -(-columns // wide))
    else:
        yield "", native, tensor.shape


def _mx_blocks(tensor: ExpectedTensor, native: str) -> Iterator[_Stored]:
    if tensor.component != "experts" or len(tensor.shape) != 3:
        yield "", native, tensor.shape
        return
    experts, inputs, outputs = tensor.shape
    yield "_blocks", "U8", (experts, outputs, inputs // _MX_BLOCK, _MX_BLOCK // 2)
    yield "_scales", "U8", (experts, outputs, inputs // _MX_BLOCK)
