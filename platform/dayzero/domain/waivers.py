"""Waivers: somebody answers for a check that fails, for a while, with a reason."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Waiver:
    """A failing check of some models on some platforms that `owner` answers for until a moment.

    `model` and `platform` are patterns as a shell's (`org/*`); `check` is a check's name. Before it expires it can be ended.
    """

    id: str
    model: str
    platform: str
    check: str
    reason: str
    owner: str
    until: datetime
    created_at: datetime
    ended_at: datetime | None = None
