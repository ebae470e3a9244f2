"""Events: what changed, written to the outbox in the transaction that changed it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class EventKind(StrEnum):
    """Every event that dayzero emits."""

    RELEASE_ANNOUNCED = "dayzero.release.announced"
    RELEASE_CONFIG_PUBLISHED = "dayzero.release.config-published"
    RELEASE_WEIGHTS_LIVE = "dayzero.release.weights-live"
    RELEASE_SUPERSEDED = "dayzero.release.superseded"
    RELEASE_WITHDRAWN = "dayzero.release.withdrawn"
    PRESTAGE_COMPLETED = "dayzero.prestage.completed"
    ADAPTATION_STARTED = "dayzero.adaptation.started"
    ADAPTATION_COMPLETED = "dayzero.adaptation.completed"
    ADAPTATION_FAILED = "dayzero.adaptation.failed"
    ENTRY_CHANGED = "dayzero.entry.changed"
    ENTRY_STALE = "dayzero.entry.stale"


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `id` is a UUID that repeats carry too; `subject` is the model's name; the fields are what filters see."""

    id: str
    kind: EventKind
    subject: str
    occurred_at: datetime
    fields: Mapping[str, str | int | float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Told:
    """A part of the events in order, and the position up to which it was looked."""

    events: tuple[Event, ...]
    position: int
