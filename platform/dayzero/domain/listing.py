"""What pages and queries show of the list and of the work: rows with where the next ones begin."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dayzero.domain.adaptation import Adaptation

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Page:
    """Rows in their order, and the cursor that the following ones begin at (None: these are the last)."""

    rows: tuple[Row, ...]
    next: str | None = None


class MatrixSort(StrEnum):
    """How models are ordered: by name, by their newest change, by how often they are verified, or by failures."""

    MODEL = "model"
    CHANGED = "changed"
    VERIFIED = "verified"
    FAILING = "failing"


@dataclass(frozen=True, slots=True)
class Cell:
    """The best entry of a model on a platform that matches, and how many do."""

    entry_id: str
    lifecycle: str
    correctness: str
    performance: str
    freshness: str
    recorded_at: datetime
    entries: int


@dataclass(frozen=True, slots=True)
class MatrixLine:
    """A model and its cells by platform."""

    model: str
    changed_at: datetime
    cells: Mapping[str, Cell]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Models × platforms, a page of them; the counts are over all entries that match."""

    platforms: tuple[str, ...]
    lines: tuple[MatrixLine, ...]
    counts: Mapping[str, int]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class SeenRelease:
    """A release that was taken, with the work that followed from it: (adaptation's id, platform, purpose, state)."""

    id: str
    model: str
    hub: str
    repo_id: str
    revision: str
    stage: str
    published_at: datetime | None
    recorded_at: datetime
    work: tuple[tuple[str, str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Sighting:
    """A repository that a source lists and that was not taken, and why; `failed`: it could not be looked at."""

    source: str
    hub: str
    repo_id: str
    reason: str
    failed: bool
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class FeedPage:
    """A page of the feed of releases: those taken or those not taken."""

    releases: tuple[SeenRelease, ...] = ()
    sightings: tuple[Sighting, ...] = ()
    next: str | None = None


@dataclass(frozen=True, slots=True)
class RunPage:
    """A page of adaptations, the newest first."""

    runs: tuple[Adaptation, ...]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class ModelView:
    """A model: its names, releases, standing entries, work, and the newest versions of its entries."""

    name: str
    aliases: tuple[str, ...]
    releases: tuple[SeenRelease, ...]
    entries: tuple[Row, ...]
    runs: tuple[Adaptation, ...]
    history: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Clocks:
    """A page of day-0 clocks, a row a model × platform with CLOCK_COLUMNS, and the target that they are held against."""

    target_s: float
    rows: tuple[Row, ...]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class League:
    """The league table of platforms, a row each with LEAGUE_COLUMNS, the best first."""

    target_s: float
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Gap:
    """An operator that a platform lacks: how many models want it, for how many it is the only one lacking, who sees to it, and
    the signature that it is remembered by."""

    operator: str
    models: int
    unlocked: int
    examples: tuple[str, ...]
    owner: str | None = None
    ticket: str | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class PlatformView:
    """A platform: its entries counted by correctness, its gaps, its line of the league, and who serves it.

    `timed` are the models that a clock runs for, `verified` of them are, `within_target` of these in time.
    """

    slug: str
    counts: Mapping[str, int]
    models: int
    gaps: tuple[Gap, ...]
    verified: int
    within_target: int
    median_s: float | None
    workers: int
    waiting: int
    newest: tuple[Row, ...]
    timed: int = 0
    target_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Tally:
    """How much there is of everything; what a first-time view says follows from it."""

    sources: int
    releases: int
    entries: int
    runs: Mapping[str, int]
