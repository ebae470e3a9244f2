"""What a parallel run observed, on every rank and beside it."""

from dataclasses import dataclass

from dayzero.domain.fingerprints import Fingerprints, Replay
from dayzero.domain.observations import TensorError
from dayzero.domain.planning import Degrees


@dataclass(frozen=True, slots=True)
class RankObserved:
    """What one rank held: bytes of its shard files (of a library's ranks: of their parameters), tensors, parameters that were
    in its memory when it computed, and its peak resident memory. `planned_parameters` is what its shard files hold (None: no
    plan of ours says)."""

    rank: int
    weight_bytes: int
    tensors: int
    peak_rss_bytes: int
    collectives: int
    parameters: int = 0
    planned_parameters: int | None = None


@dataclass(frozen=True, slots=True)
class ParallelObserved:
    """Logits of a parallel run, and of one process from the checkpoint, each against float64.

    `dtype` is what both computed in (weights are widened to it, exactly); `parameters` are those of the whole model.
    `engine` says whose ranks ran: our own from their shards, or a library's from the checkpoint. `replay` is the first
    divergent operator alone.
    """

    degrees: Degrees
    dtype: str
    reference_dtype: str
    tokens: int
    token_source: str
    target: TensorError
    native: TensorError
    between: TensorError
    top1_agreement: float
    ranks: tuple[RankObserved, ...]
    notes: tuple[str, ...] = ()
    observed_s: float = 0.0
    parameters: int = 0
    prints: Fingerprints | None = None
    replay: Replay | None = None
    engine: str = "dayzero"
