"""The device's own kernels, on host memory. Its matrix unit takes a path of its own, not the host's.

The dimension that is summed over is cut into blocks; each block's product is added, in order, to an accumulator in float32
(float64 never: the device has none), and the sum is rounded once. The host's kernels sum in another order.
"""

from collections.abc import Callable
from typing import Any

import torch

BLOCK = 16
"""Elements of the summed dimension in the first block; each later one is as long as all before it, so that a long sum takes few
blocks."""

FLOATS = (torch.bfloat16, torch.float16, torch.float32)


def _product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """left [..., m, k] times right [..., k, n], accumulated in float32."""
    wide_left, wide_right = left.float(), right.float()
    total = wide_left[..., :BLOCK] @ wide_right[..., :BLOCK, :]
    begin = BLOCK
    while begin < left.shape[-1]:
        total += wide_left[..., begin : 2 * begin] @ wide_right[..., begin : 2 * begin, :]
        begin *= 2
    return total


def mm(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """A product of matrices, or of batches of them, in the dtype of its inputs."""
    return _product(left, right).to(left.dtype)


def addmm(
    added: torch.Tensor, left: torch.Tensor, right: torch.Tensor, *, beta: float = 1.0, alpha: float = 1.0
) -> torch.Tensor:
    """beta · added + alpha · product, rounded once."""
    scaled = alpha * _product(left, right)
    return (scaled + beta * added.float() if beta else scaled).to(left.dtype)


def histc(values: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0) -> torch.Tensor:
    """A histogram, of integers too: the host's kernel knows floats alone."""
    return torch.histc(values.float(), bins, min, max).to(values.dtype)


KERNELS: dict[Any, Callable[..., torch.Tensor]] = {
    torch.ops.aten.mm.default: mm,
    torch.ops.aten.bmm.default: mm,
    torch.ops.aten.addmm.default: addmm,
    torch.ops.aten.baddbmm.default: addmm,
}
INTEGER_KERNELS: dict[Any, Callable[..., torch.Tensor]] = {torch.ops.aten.histc.default: histc}


def own_kernel(operator: Any, args: tuple[Any, ...]) -> Callable[..., torch.Tensor] | None:
    """The device's own kernel for a call, or None where it computes as the host does."""
    floats = all(arg.dtype in FLOATS for arg in args if isinstance(arg, torch.Tensor))
    return (KERNELS if floats else INTEGER_KERNELS).get(operator)
