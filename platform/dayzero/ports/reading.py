"""The list and the work as pages and queries read them, through one viewer's eyes; nothing is written here."""

from collections.abc import Sequence
from typing import Protocol

from dayzero.domain.access import Viewer
from dayzero.domain.adaptation import Adaptation
from dayzero.domain.listing import (
    Clocks,
    FeedPage,
    League,
    Matrix,
    MatrixSort,
    ModelView,
    Page,
    PlatformView,
    RunPage,
    Tally,
)


class Reading(Protocol):
    """Queries with bounds: each answers a page of rows and takes a limited time. BadInputError for a wrong filter or cursor."""

    def seen_by(self, viewer: Viewer) -> "Reading":
        """The same through another's eyes."""
        ...

    def entries(self, predicate: str = "", *, search: str = "", limit: int = 100, cursor: str | None = None) -> Page:
        """Current entries that match, by model, platform and key; a version written meanwhile neither hides nor repeats one."""
        ...

    def rollup(self, *, limit: int = 1000, cursor: str | None = None) -> Page:
        """One row a model × platform, by both: the best entry of each."""
        ...

    def matrix(
        self,
        predicate: str = "",
        *,
        search: str = "",
        sort: MatrixSort = MatrixSort.MODEL,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Matrix:
        """Models × platforms: the best entry of each that matches."""
        ...

    def model(self, name: str) -> ModelView:
        """A model by its name or an alias. NotFoundError."""
        ...

    def platform(self, slug: str) -> PlatformView:
        """A platform that somebody asked about. NotFoundError."""
        ...

    def platforms(self) -> Sequence[PlatformView]:
        """Every platform, without gaps and newest entries."""
        ...

    def clocks(
        self, model: str | None = None, platform: str | None = None, *, limit: int = 100, cursor: str | None = None
    ) -> Clocks:
        """Day-0 clocks, those of the latest weights first."""
        ...

    def league(self) -> League:
        """The league table of platforms, over the models that the viewer sees; it may be some seconds old."""
        ...

    def releases(self, *, limit: int = 50, cursor: str | None = None) -> FeedPage:
        """Releases that were taken, the newest first."""
        ...

    def sightings(self, *, limit: int = 50, cursor: str | None = None) -> FeedPage:
        """Repositories that were not taken, the newest decision first."""
        ...

    def runs(self, state: str | None = None, *, limit: int = 50, cursor: str | None = None) -> RunPage:
        """Adaptations, the newest first."""
        ...

    def changed_runs(self, within_s: float) -> Sequence[Adaptation]:
        """Adaptations that go on, or that ended within so many seconds."""
        ...

    def run(self, adaptation_id: str) -> Adaptation:
        """One adaptation. NotFoundError."""
        ...

    def tally(self) -> Tally:
        """How much there is of everything."""
        ...
