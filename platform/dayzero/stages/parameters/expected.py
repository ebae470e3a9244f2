"""A tensor that a structure leads to."""

from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, slots=True)
class ExpectedTensor:
    """A tensor of the reference implementation: its layer (None: outside of them), name below the layer, shape, component.

    `experts` tensors of the same shape stand behind one whose name holds `{e}`.
    """

    layer: int | None
    name: str
    shape: tuple[int, ...]
    component: str
    experts: int = 1

    @property
    def elements(self) -> int:
        """Elements over all experts."""
        return self.experts * prod(self.shape)
