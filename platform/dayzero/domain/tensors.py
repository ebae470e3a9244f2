"""Tensors of a checkpoint as their headers state them; never their values."""

from dataclasses import dataclass
from math import prod

from dayzero.domain.findings import Finding

DTYPE_BITS = {
    "F64": 64, "F32": 32, "F16": 16, "BF16": 16, "I64": 64, "I32": 32, "I16": 16, "I8": 8, "U64": 64, "U32": 32,
    "U16": 16, "U8": 8, "BOOL": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4,
}  # fmt: skip
"""Bits an element, by safetensors dtype name (safetensors format documentation)."""


@dataclass(frozen=True, slots=True)
class TensorHeader:
    """One tensor: name, safetensors dtype, shape, and the absolute byte range [begin, end) in its file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: str
    begin: int
    end: int

    @property
    def elements(self) -> int:
        """Number of elements (1 for a scalar)."""
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes the tensor takes in its file."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class CheckpointIndex:
    """Every tensor of a checkpoint, sorted by name, with what was wrong about the headers."""

    tensors: tuple[TensorHeader, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def weight_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.size_bytes for tensor in self.tensors)
