"""Entries that grow old, and the queue of those that are run again; each method is one transaction."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from dayzero.domain.access import OPERATOR, Viewer
from dayzero.domain.ageing import Ageing, Priority, Rerun, StandingEntry
from dayzero.domain.platforms import Stack


class AgeingBook(Protocol):
    """What stands, what it is marked with, and what waits to be run again."""

    def standing(self) -> Sequence[StandingEntry]:
        """Every entry of the list that counts as current, with what it rests on."""
        ...

    def stacks(self, seen_within_s: float) -> Mapping[str, Sequence[Stack]]:
        """By platform what counts as installed: the newest stack that was told, then those of workers seen lately."""
        ...

    def mark(self, entry: StandingEntry, causes: Sequence[Ageing]) -> bool:
        """Append the entry's stale version with the causes in words, write dayzero.entry.stale, and queue its re-run.

        False, and nothing is written, where the entry is no longer the current one of its key, or is stale already: of two
        markers at once one marks. What runs, is requested or was cancelled is not queued.
        """
        ...

    def waiting(self, platform: str | None = None, viewer: Viewer = OPERATOR) -> Sequence[Rerun]:
        """Re-runs that wait and that the viewer sees, with what speaks for each and what it costs."""
        ...

    def under_way(self) -> Mapping[str, int]:
        """Re-runs that were started and have not ended, by platform."""
        ...

    def start(self, rerun: Rerun, priority: Priority) -> bool:
        """Request the adaptation again and keep the priority and its terms; False where it no longer waits.

        Checks and measurements of earlier attempts stay in the versions of the entry; the new attempt records its own.
        """
        ...

    def asked(self, model: str, platform: str) -> None:
        """Count a look-up of the model on the platform: demand."""
        ...
