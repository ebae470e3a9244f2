"""Headers that a checkpoint will have, from the structure alone: what pre-staging plans with."""

from math import prod

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.findings import Finding
from dayzero.domain.tensors import DTYPE_BITS, CheckpointIndex, TensorHeader
from dayzero.stages.parameters import expected_tensors

_DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}


def predicted_index(spec: ModelSpec) -> CheckpointIndex | None:
    """The expected tensors in the native dtype, or None when the structure or the dtype is unknown.

    The finding `plan.predicted_weights` says that bytes are predicted; for a quantized model they are the bytes of the
    unquantized one, which is more than it will take.
    """
    dtype = _DTYPES.get(spec.native_dtype or "")
    tensors = expected_tensors(spec)
    if dtype is None or not tensors:
        return None
    at, headers = 0, []
    for tensor in tensors:
        size = prod(tensor.shape) * DTYPE_BITS[dtype] // 8
        for expert in range(tensor.experts):
            name = tensor.name.replace("{e}", str(expert))
            path = name if tensor.layer is None else f"layers.{tensor.layer}.{name}"
            headers.append(TensorHeader(f"model.{path}", dtype, tensor.shape, "predicted", at, at + size))
            at += size
    message = f"weight bytes are predicted from the structure in {spec.native_dtype}: there are no headers yet"
    if spec.quantization is not None:
        message += f"; quantization ({spec.quantization.method}) will make them fewer"
    finding = Finding("plan.predicted_weights", "weights", message, numbers={"weight_bytes": at})
    return CheckpointIndex(tuple(sorted(headers, key=lambda header: header.name)), (finding,))
