"""Rounds of growing old: what is stale is marked and queued, and the queue is let go a little at a time.

Both may run at any time, twice at once, and after any crash: marking and starting are each one transaction that looks again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from dayzero.domain.access import OPERATOR, Viewer
from dayzero.domain.adaptation import Purpose
from dayzero.domain.ageing import InForce, Priority, Rerun, StandingEntry, figures_of
from dayzero.domain.platforms import PlatformProfile
from dayzero.domain.verdict import Mode
from dayzero.ports.ageing import AgeingBook
from dayzero.ports.catalog import Catalog
from dayzero.stages.ageing.deciding import aged, reason_of
from dayzero.stages.ageing.priority import priority
from dayzero.stages.entries.required import METHODS

SEEN_WITHIN_S = 24 * 3600.0
"""How long the stack of a worker counts as installed after it fell silent: a night's pause makes nothing stale."""


@dataclass(frozen=True, slots=True)
class Marked:
    """An entry that was found stale, and why."""

    entry: StandingEntry
    why: str


@dataclass(frozen=True, slots=True)
class Queued:
    """A re-run in its place."""

    rerun: Rerun
    priority: Priority


def sweep(book: AgeingBook, catalog: Catalog, profiles: Mapping[str, PlatformProfile], now: datetime) -> tuple[Marked, ...]:
    """Mark every entry that no longer describes what is installed and in force; those that were marked now."""
    stacks = book.stacks(SEEN_WITHIN_S)
    figures = {slug: figures_of(profile) for slug, profile in profiles.items()}
    ended = frozenset(one.id for one in catalog.waivers() if one.ended_at is not None)

    def in_force(platform: str, mode: Mode) -> InForce:
        return InForce(tuple(stacks.get(platform, ())), figures.get(platform), METHODS[mode], ended, now)

    marked = []
    for entry in book.standing():
        causes = aged(entry, in_force(entry.platform, entry.mode))
        if causes and book.mark(entry, causes):
            marked.append(Marked(entry, reason_of(causes)))
    return tuple(marked)


def queue(book: AgeingBook, platform: str | None = None, viewer: Viewer = OPERATOR) -> tuple[Queued, ...]:
    """What waits to be run again and the viewer sees, the first to be started first; of equals the one queued first."""
    waiting = [Queued(rerun, priority(rerun.worth)) for rerun in book.waiting(platform, viewer)]
    return tuple(sorted(waiting, key=lambda one: (-one.priority.score, one.rerun.queued_at, one.rerun.id)))


def let_go(book: AgeingBook, is_served: Callable[[str], bool], at_once: int) -> tuple[str, ...]:
    """Start what comes first, on each platform so many at once; ids of the adaptations that were requested.

    What needs a worker waits in the queue, where it keeps its place, while its platform has none.
    """
    busy = dict(book.under_way())
    served: dict[str, bool] = {}
    started = []
    for one in queue(book):
        platform = one.rerun.platform
        if busy.get(platform, 0) >= at_once:
            continue
        if platform not in served:
            served[platform] = is_served(platform)
        if (served[platform] or one.rerun.purpose is Purpose.PRESTAGE) and book.start(one.rerun, one.priority):
            busy[platform] = busy.get(platform, 0) + 1
            started.append(one.rerun.adaptation_id)
    return tuple(started)
