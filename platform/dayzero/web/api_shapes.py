"""Shapes of the API's answers, for its document: what a program may rely on. Fields are only ever added."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from dayzero.domain.columns import (
    CLOCK_COLUMNS,
    COMPATIBILITY_COLUMNS,
    LEAGUE_COLUMNS,
    ROLLUP_COLUMNS,
    Column,
    ColumnKind,
)

_KINDS: dict[ColumnKind, Any] = {
    ColumnKind.TEXT: str | None,
    ColumnKind.NUMBER: float | None,
    ColumnKind.TIME: datetime | None,
}


class Shape(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(extra="allow")


def _row(name: str, columns: tuple[Column, ...]) -> type[BaseModel]:
    fields: dict[str, Any] = {one.name: (_KINDS[one.kind], Field(description=one.meaning)) for one in columns}
    return create_model(name, __base__=Shape, **fields)


Entry = _row("Entry", COMPATIBILITY_COLUMNS)
Rolled = _row("ModelOnPlatform", ROLLUP_COLUMNS)
Clocked = _row("DayZeroClock", CLOCK_COLUMNS)
Ranked = _row("PlatformInLeague", LEAGUE_COLUMNS)


class Entries(Shape):
    """A page of entries. `next` is there while more follow."""

    document: str = Field(alias="schema")
    filter: str
    entries: list[Entry]  # type: ignore[valid-type]
    next: str | None = None


class Rollup(Shape):
    """A page of models on platforms."""

    document: str = Field(alias="schema")
    rollup: list[Rolled]  # type: ignore[valid-type]
    next: str | None = None


class OneEntry(Shape):
    """One version of an entry: its row, and everything behind it."""

    document: str = Field(alias="schema")
    entries: list[Entry]  # type: ignore[valid-type]
    entry: dict[str, Any]


class OneReport(Shape):
    """What the page of an entry shows; docs/reference/json.md says each field."""

    document: str = Field(alias="schema")
    entry: dict[str, Any]
    entry_id: str | None = None
    verdicts: list[dict[str, Any]]
    features: list[dict[str, Any]]
    layers: list[dict[str, Any]]
    memory: list[dict[str, Any]]


class OneDiff(Shape):
    """What two entries differ in; docs/reference/json.md says each field."""

    document: str = Field(alias="schema")
    a: dict[str, Any]
    b: dict[str, Any]
    checks: list[dict[str, Any]]
    layers: list[dict[str, Any]]
    packages: list[dict[str, Any]]
    measurements: list[dict[str, Any]]
    notes: list[str]


class OneModel(Shape):
    """A model with its releases, entries, work and history."""

    document: str = Field(alias="schema")
    model: dict[str, Any]


class Platforms(Shape):
    """Every platform with its counts."""

    document: str = Field(alias="schema")
    platforms: list[dict[str, Any]]


class OnePlatform(Shape):
    """A platform with its gaps, clock and newest entries."""

    document: str = Field(alias="schema")
    platform: dict[str, Any]


class Releases(Shape):
    """A page of the feed: releases that were taken, or sightings of what was not."""

    document: str = Field(alias="schema")
    releases: list[dict[str, Any]]
    sightings: list[dict[str, Any]]
    next: str | None = None


class Runs(Shape):
    """A page of adaptations."""

    document: str = Field(alias="schema")
    runs: list[dict[str, Any]]
    next: str | None = None


class OneRun(Shape):
    """An adaptation."""

    document: str = Field(alias="schema")
    run: dict[str, Any]


class OneClock(Shape):
    """A page of day-0 clocks, and the target in seconds."""

    document: str = Field(alias="schema")
    target_s: float
    clock: list[Clocked]  # type: ignore[valid-type]
    next: str | None = None


class OneLeague(Shape):
    """The league table of platforms, the best first, by the target in seconds."""

    document: str = Field(alias="schema")
    target_s: float
    league: list[Ranked]  # type: ignore[valid-type]


class Failures(Shape):
    """Known failures, and how many there are."""

    document: str = Field(alias="schema")
    failures: list[dict[str, Any]]
    total: int


class Gaps(Shape):
    """Operators that platforms lack, and how many there are."""

    document: str = Field(alias="schema")
    platform: str | None
    gaps: list[dict[str, Any]]
    total: int


class Queue(Shape):
    """Places in the queue of re-runs, and how many there are."""

    document: str = Field(alias="schema")
    queue: list[dict[str, Any]]
    total: int


class Subscriptions(Shape):
    """Subscriptions of a token. A new webhook's `secret` is shown once, and `problem` says why its confirmation failed."""

    document: str = Field(alias="schema")
    subscriptions: list[dict[str, Any]]


class Replayed(Shape):
    """How many dead letters are tried again."""

    document: str = Field(alias="schema")
    replayed: int


class Reports(Shape):
    """What others say of models on platforms: declared, never measured."""

    document: str = Field(alias="schema")
    reports: list[dict[str, Any]]


class ReportTaken(Shape):
    """A report that waits to be judged; `new` is 0 when it was told before."""

    document: str = Field(alias="schema")
    new: int
    state: str


class Problem(Shape):
    """What went wrong (RFC 9457), and what to do about it."""

    type: str
    title: str
    status: int
    detail: str
    remedy: str | None = None


def answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The refusals that a route may answer with, for its document; any may say that too much was asked."""
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": _WORDS[status], "content": content} for status in (*statuses, 429)}


_WORDS = {
    401: "A token is needed, or the one given is not good.",
    403: "The token may not do this.",
    404: "There is no such thing, or the reader may not see it.",
    422: "The request was not understood; the detail says where.",
    429: "Too much was asked in a minute; `Retry-After` says how many seconds to wait.",
    502: "Something that this needs is not installed.",
    503: "The database does not answer now.",
}
