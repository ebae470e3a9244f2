"""What a step costs: operations, the load that they serve, and what share of a peak is reached."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Efficiency:
    """What share of a peak is reached, or a fixed cost in seconds: pessimistic, likely, optimistic; who says so.

    `grade` is assumed, or measured when the platform itself was probed.
    """

    worst: float
    likely: float
    best: float
    source: str
    grade: str = "assumed"


Efficiencies = Mapping[str, Efficiency]
"""By name: gemm, experts, attention, recurrent (shares of the arithmetic's peak), stream, cache_stream, expert_stream (of the
memory bandwidth), link, wide_link (of a fabric's, of a network's bandwidth), overlap, gradient_overlap (of an exchange that
hides behind work), imbalance (the busiest expert rank against the mean), kernel_s, collective_s, wide_collective_s (seconds a
call), step_s (seconds a step)."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operator of one layer on one rank: its FLOPs and bytes after sharding, and which peaks bound it.

    `rate` names the arithmetic (native, dense, experts: the dtypes of the model's matrices), `compute` and `memory` the
    efficiencies that apply; `calls` kernels are launched.
    """

    what: str
    flops: float
    bytes: float
    rate: str
    compute: str
    memory: str
    calls: int = 1


@dataclass(frozen=True, slots=True)
class Load:
    """What one step works on, on one replica of attention: so many tokens of prefill, each of which sees `prefill_context`
    tokens on average, and a token for each of so many sequences, which see `decode_context`."""

    prefill_tokens: int
    prefill_context: int
    decode_sequences: int
    decode_context: int

    @property
    def tokens(self) -> int:
        """Tokens that go through every matrix."""
        return self.prefill_tokens + self.decode_sequences


@dataclass(frozen=True, slots=True)
class Matrix:
    """A linear layer's weights: rows × columns, bytes as stored, the scheme (None: the native dtype), into how many slices
    tensor parallelism can cut it (0: any, 1: whole on every rank)."""

    name: str
    rows: int
    columns: int
    stored_bytes: float
    scheme: str | None
    most_slices: int = 0

    def slices(self, tp: int) -> int:
        """Slices at that degree."""
        return tp if self.most_slices == 0 else min(tp, self.most_slices)
