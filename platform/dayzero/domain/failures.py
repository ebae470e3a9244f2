"""What went wrong on a platform once: remembered, explained by people, and foretold for the next model."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class FailureKind(StrEnum):
    """How a failure showed itself."""

    MISSING = "missing"
    """The platform does not offer the operator."""
    FAIL = "fail"
    """It was measured, and is wrong."""
    ERROR = "error"
    """It could not be measured: a crash, a refusal, a hang."""


@dataclass(frozen=True, slots=True)
class Symptom:
    """One failure of one entry. `operator` is None where nothing smaller than a check is known to be at fault; `dtypes` and
    `shape_class` are empty where nobody knows them; `said` are the words of the run.
    """

    kind: FailureKind
    check: str
    operator: str | None
    dtypes: tuple[str, ...]
    shape_class: str
    platform: str
    stack_fingerprint: str
    said: str


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """A root cause as far as its signature tells: the same on every model that it hit.

    `symptom` are the first words that were said of it; `cause`, `workaround`, `owner` and `ticket` are what people added.
    `models` are hit now, `former` were and no longer are; `stacks` are the fingerprints that it showed itself in.
    """

    signature: str
    kind: FailureKind
    check: str
    operator: str | None
    dtypes: tuple[str, ...]
    shape_class: str
    platform: str
    symptom: str
    cause: str | None
    workaround: str | None
    owner: str | None
    ticket: str | None
    models: tuple[str, ...]
    former: tuple[str, ...]
    stacks: tuple[str, ...]
    first_seen_at: datetime
    last_seen_at: datetime


@dataclass(frozen=True, slots=True)
class Foretold:
    """A known failure that a model's next run is expected to meet, by the operator that it uses; the grade is predicted."""

    failure: KnownFailure
    uses: int
    same_stack: bool


@dataclass(frozen=True, slots=True)
class RankedGap:
    """An operator that a platform lacks, with what bridging it would unlock: models that lack it, and those that lack nothing
    else."""

    operator: str
    models: tuple[str, ...]
    unlocked: tuple[str, ...]
    failure: KnownFailure
