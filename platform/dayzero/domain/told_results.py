"""What others say of a model on a platform: results of before, and reports from the field. Never more than declared."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Saying(StrEnum):
    """What was said."""

    WORKS = "works"
    PARTLY = "partly"
    FAILS = "fails"


class ReportKind(StrEnum):
    """Who says so: an imported table of results, or a deployment."""

    DECLARED = "declared"
    FIELD = "field"


class ReportState(StrEnum):
    """Whether somebody has let it be shown."""

    PENDING = "pending"
    ACCEPTED = "accepted"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Claim:
    """What is said: of which model on which platform, under which conditions, with which figures, and where it was written."""

    model: str
    platform: str
    says: Saying
    source: str
    engine: str | None = None
    dtype: str | None = None
    devices: int | None = None
    observed_on: str | None = None
    note: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """A claim as it is kept; `told_by` is `operator` or a token's id. Its grade is declared, whatever it says."""

    id: str
    kind: ReportKind
    claim: Claim
    state: ReportState
    told_by: str
    created_at: datetime
    judged_by: str | None = None
    judged_at: datetime | None = None
    why: str | None = None
