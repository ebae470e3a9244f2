"""Adaptations: the rows of work, with their unique claim and attempt."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dayzero.domain.precision_policy import PrecisionPolicy
from dayzero.domain.verdict import Mode


class Purpose(StrEnum):
    """What a row of work is for."""

    PRESTAGE = "prestage"
    ADAPT = "adapt"


class AdaptationState(StrEnum):
    """Where the work stands. BLOCKED waits for the operator (the reason says for what); it is neither done nor failed."""

    REQUESTED = "requested"
    RUNNING = "running"
    DONE = "done"
    BLOCKED = "blocked"
    FAILED = "failed"
    CANCELLED = "cancelled"


GOING_ON = (AdaptationState.REQUESTED, AdaptationState.RUNNING)
"""Where something still happens without anybody's doing."""


@dataclass(frozen=True, slots=True)
class Adaptation:
    """One (purpose, content id, platform, mode), unique; `attempt` counts its starts, from 0 before the first.

    `claimant` names the run that holds it; `stage` the step it is at; `reason` why it stands where it stands; `policy` by which
    precisions the modules of its targets compute (None: all in the native one).
    """

    id: str
    purpose: Purpose
    release_id: str
    content_id: str
    model: str
    platform: str
    mode: Mode
    state: AdaptationState
    attempt: int
    requested_at: datetime
    claimant: str | None = None
    heartbeat_at: datetime | None = None
    stage: str | None = None
    reason: str | None = None
    finished_at: datetime | None = None
    policy: PrecisionPolicy | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write for one attempt of one adaptation; a newer attempt makes it stale."""

    adaptation_id: str
    attempt: int
    claimant: str
