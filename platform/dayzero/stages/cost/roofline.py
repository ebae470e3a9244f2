"""The roofline: an operator takes as long as its arithmetic or its bytes, whichever is longer, and its launch."""

from collections.abc import Iterable, Mapping, Sequence

from dayzero.domain.costs import Matrix, Operation
from dayzero.stages.cost.mixers import ACTIVATION_BYTES

Line = tuple[float, float, float]
"""A matrix as seconds: of arithmetic a token, of reading its weights once, of activations a token."""


class Roofline:
    """Seconds of operators at given peaks and the shares of them that are reached."""

    def __init__(self, bytes_per_s: float, rates: Mapping[str | None, float], figures: Mapping[str, float]) -> None:
        self.figures = figures
        self._bytes_per_s = bytes_per_s
        self._rates = {(scheme or "native"): rate for scheme, rate in rates.items()}

    @property
    def stream_bytes_per_s(self) -> float:
        """Memory bandwidth that long reads and writes reach."""
        return self._bytes_per_s * self.figures["stream"]

    def seconds(self, operation: Operation) -> float:
        """The longer of arithmetic and memory, and the launch."""
        compute, memory = self._sides(operation)
        return max(compute, memory) + operation.calls * self.figures["kernel_s"]

    def total_s(self, operations: Iterable[Operation]) -> float:
        """Operators one after the other."""
        return sum(self.seconds(operation) for operation in operations)

    def binding(self, operation: Operation) -> str:
        """compute, memory or launch: whichever takes longest."""
        compute, memory = self._sides(operation)
        if operation.calls * self.figures["kernel_s"] > max(compute, memory):
            return "launch"
        return "compute" if compute > memory else "memory"

    def lines(self, matrices: Sequence[Matrix], slices: int | None, tp: int, compute: str, memory: str) -> tuple[Line, ...]:
        """The matrices as seconds, in so many slices (None: as each can be by tp): what `linear` says, worked out once."""
        reached, read = self.figures[compute], self._bytes_per_s * self.figures[memory]
        found = []
        for matrix in matrices:
            parts = slices or matrix.slices(tp)
            arithmetic = 2.0 * matrix.rows * matrix.columns / parts / (self._rates[matrix.scheme or "native"] * reached)
            moved = (matrix.rows + matrix.columns) / parts * ACTIVATION_BYTES / read
            found.append((arithmetic, matrix.stored_bytes / parts / read, moved))
        return tuple(found)

    def lines_s(self, lines: Sequence[Line], tokens: float, times_read: float = 1.0) -> float:
        """So many tokens times each matrix, whose weights are read so many times (experts: as many as are touched)."""
        total = len(lines) * self.figures["kernel_s"]
        for arithmetic, weights, moved in lines:
            compute, memory = arithmetic * tokens, weights * times_read + moved * tokens
            total += compute if compute > memory else memory
        return total

    def _sides(self, operation: Operation) -> tuple[float, float]:
        compute = operation.flops / (self._rates[operation.rate] * self.figures[operation.compute])
        return compute, operation.bytes / (self._bytes_per_s * self.figures[operation.memory])
