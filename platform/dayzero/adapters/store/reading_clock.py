"""Day-0 clocks and the league of platforms, as pages read them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import datetime

from sqlalchemy import ColumnElement, and_, or_, select, tuple_
from sqlalchemy.orm import Session

from dayzero.adapters.store.compatibility import rows_of
from dayzero.adapters.store.cursors import cursor_of, place_of
from dayzero.adapters.store.models import named
from dayzero.adapters.store.views import clock_view
from dayzero.adapters.store.visibility import seen_by
from dayzero.domain.access import Sight
from dayzero.domain.listing import Clocks, League
from dayzero.kept import Kept
from dayzero.ports.running import Clock
from dayzero.stages.day_zero.league import league

LEAGUE_FOR_S = 10.0
SIGHTS = 32
_k = clock_view.c
_UNKNOWN = ""
"""In a cursor: the weights were never seen live. Those rows come last."""

Places = dict[str, Mapping[str, object]]


class ClockReading(ABC):
    """The part of ports.reading.Reading that is about time."""

    _clock: Clock
    _target_s: float
    _leagues: Kept[Sight, Places]
    """By what is hidden: medians over the whole list move slowly."""

    @abstractmethod
    def _opened(self) -> AbstractContextManager[tuple[Session, Sight]]:
        """A transaction, and what its viewer does not see."""

    def clocks(
        self, model: str | None = None, platform: str | None = None, *, limit: int = 100, cursor: str | None = None
    ) -> Clocks:
        """Day-0 clocks, those of the latest weights first."""
        query = select(clock_view).order_by(_k.weights_live_at.desc().nulls_last(), _k.model, _k.platform).limit(limit + 1)
        if platform is not None:
            query = query.where(_k.platform == platform)
        if cursor is not None:
            query = query.where(_after(cursor))
        with self._opened() as (session, sight):
            if model is not None:
                known = named(session, model)
                query = query.where(_k.model == (model if known is None else known.name))
            found = rows_of(session.execute(query.where(seen_by(sight, _k.model, _k.platform))))
        rows = found[:limit]
        return Clocks(self._target_s, rows, _place(rows[-1]) if len(found) > limit else None)

    def league(self) -> League:
        """The league table of platforms, over the models that the viewer sees."""
        with self._opened() as (session, sight):
            return League(self._target_s, tuple(self._places(session, sight).values()))

    def _places(self, session: Session, sight: Sight) -> Places:
        """The lines of the league by platform, in their order."""

        def made() -> Places:
            query = select(clock_view).where(_k.weights_live_at.is_not(None), seen_by(sight, _k.model, _k.platform))
            table = league(rows_of(session.execute(query)), self._target_s)
            return {str(row["platform"]): row for row in table}

        return self._leagues.get(sight, made)


def _place(row: Mapping[str, object]) -> str:
    at = row["weights_live_at"]
    return cursor_of([at.isoformat() if isinstance(at, datetime) else _UNKNOWN, str(row["model"]), str(row["platform"])])


def _after(cursor: str) -> ColumnElement[bool]:
    at, model, platform = place_of(cursor, [str, str, str])
    names = tuple_(_k.model, _k.platform) > tuple_(model, platform)
    if at == _UNKNOWN:
        return and_(_k.weights_live_at.is_(None), names)
    (live,) = place_of(cursor_of([at]), [datetime])
    return or_(_k.weights_live_at < live, _k.weights_live_at.is_(None), and_(_k.weights_live_at == live, names))
