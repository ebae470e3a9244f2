"""What a rank is told, and what it answers with beside its logits."""

from dataclasses import dataclass

from dayzero.domain.bridges import Recipe
from dayzero.domain.planning import Degrees
from dayzero.domain.platforms import Device


@dataclass(frozen=True, slots=True)
class RankTask:
    """One rank's job. Paths are absolute; `meeting` is the file over which the ranks find each other.

    The rank computes on `device` (None: the host); sums and messages between ranks pass through the host.
    `skip_all_reduce` plants a fault: the first sum over ranks in this layer is left out. With `decode_tokens` the rank keeps a
    cache, decodes so many tokens, and answers with its memory instead of logits. `overlap`: layers compute while the weights of
    those behind them are read; a rank that answers with its memory reads all before.
    """

    rank: int
    degrees: Degrees
    model_dir: str
    shards_dir: str
    tokens: tuple[int, ...]
    dtype: str
    meeting: str
    logits: str
    answer: str
    timeout_s: float
    skip_all_reduce: int | None = None
    device: Device | None = None
    bridges: tuple[Recipe, ...] = ()
    decode_tokens: int | None = None
    overlap: bool = True
