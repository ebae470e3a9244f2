"""The memory of failures; each method is one transaction."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from dayzero.domain.access import Viewer
from dayzero.domain.failures import KnownFailure


class FailureMemory(Protocol):
    """What went wrong, through one viewer's eyes. It is written by the end of an attempt, with its entry (Catalog.finish)."""

    def seen_by(self, viewer: Viewer) -> "FailureMemory":
        """The same memory through another's eyes: what only hidden models met is not in it."""
        ...

    def known(self, platform: str | None = None, *, operator: str | None = None) -> Sequence[KnownFailure]:
        """Failures, those that hit the most models first."""
        ...

    def explain(self, signature: str, words: Mapping[str, str | None]) -> KnownFailure:
        """Set `cause`, `workaround`, `owner` or `ticket` (None takes one away). NotFoundError, BadInputError."""
        ...
