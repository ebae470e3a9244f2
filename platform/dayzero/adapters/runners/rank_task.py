"""What a rank is told, and what it answers with beside its logits."""

from dataclasses import dataclass

from dayzero.domain.bridges import Recipe
from dayzero.domain.fingerprints import TOKEN_BLOCK
from dayzero.domain.planning import Degrees
from dayzero.domain.platforms import Device


@dataclass(frozen=True, slots=True)
class PlantedSum:
    """A fault: the first sum over ranks in this layer is left out, or taken twice, on one rank or on all (None)."""

    layer: int
    rank: int | None = None
    doubled: bool = False


@dataclass(frozen=True, slots=True)
class RankTask:
    """One rank's job. Paths are absolute; `meeting` is the URL at which the ranks find each other: file://PATH, or env://
    where torchrun started them. `collected`: the first rank gets what all of them wrote.

    The rank computes on `device` (None: the host); sums and messages between ranks pass through the host.
    With `decode_tokens` the rank keeps a cache, decodes so many tokens, and answers with its memory instead of logits.
    `overlap`: layers compute while the weights of those behind them are read; a rank that answers with its memory reads all
    before. `prints` is where the fingerprints of so many tokens a block go ("": none are taken); with `replay`, a module's
    name, its tensors are kept whole in the file of that name beside the answer.
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
    planted: PlantedSum | None = None
    device: Device | None = None
    bridges: tuple[Recipe, ...] = ()
    decode_tokens: int | None = None
    overlap: bool = True
    prints: str = ""
    token_block: int = TOKEN_BLOCK
    replay: str = ""
    collected: bool = False
