"""Results, keyed by what they were computed from."""

from dataclasses import dataclass, field
from datetime import datetime

from dayzero.domain.canonical import digest


@dataclass(frozen=True, slots=True)
class ResultKey:
    """(stage, version of the stage, digest of the inputs actually read): equal keys, equal results."""

    stage: str
    stage_version: int
    inputs_digest: str


def result_key(stage: str, stage_version: int, *inputs: object) -> ResultKey:
    """The key of what `stage` computes from `inputs` (nouns or plain values)."""
    return ResultKey(stage, stage_version, digest(inputs))


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A stored result: its key, the canonical JSON document, and who computed it when.

    Linked to an adaptation: whether that found it (`reused`) or computed it in its attempt `first_attempt`; `last_attempt` is
    the newest that used it. None where an older version linked it.
    """

    id: str
    key: ResultKey
    document: bytes
    created_at: datetime
    reused: bool = False
    first_attempt: int | None = field(default=None, compare=False)
    last_attempt: int | None = field(default=None, compare=False)

    def computed_in(self, attempt: int) -> bool:
        """Whether that attempt computed it, instead of finding it."""
        return not self.reused and self.first_attempt == attempt
