"""Entries as people ask for them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Engine, Result, select

from dayzero.adapters.store.connection import transaction
from dayzero.adapters.store.models import named
from dayzero.adapters.store.predicate_sql import where
from dayzero.adapters.store.rows import noun_of, utc
from dayzero.adapters.store.tables import StackRow
from dayzero.adapters.store.tables_telling import EntryRow
from dayzero.adapters.store.views import clock_view, current_view, rollup_view, versions_view
from dayzero.adapters.store.visibility import seen_by, sight_of
from dayzero.domain.access import OPERATOR, Viewer
from dayzero.domain.columns import COMPATIBILITY_COLUMNS
from dayzero.domain.entry import CompatibilityEntry
from dayzero.domain.platforms import Stack
from dayzero.errors import BadInputError, NotFoundError
from dayzero.ports.running import Clock
from dayzero.stages.day_zero.league import TARGET_S, league
from dayzero.stages.predicates.text import parse
from dayzero.stages.predicates.tree import fields_from

QUERY_FIELDS = fields_from(COMPATIBILITY_COLUMNS)
"""What a query of the list may name."""

_HEX = frozenset("0123456789abcdef")
_MODEL_AND_PLATFORM = (EntryRow.model, EntryRow.platform)


class SqlCompatibilityList:
    """ports.catalog.CompatibilityList on PostgreSQL, through one viewer's eyes. Moments are datetimes in UTC."""

    def __init__(self, engine: Engine, clock: Clock, viewer: Viewer = OPERATOR) -> None:
        self._engine = engine
        self._clock = clock
        self._viewer = viewer

    def seen_by(self, viewer: Viewer) -> "SqlCompatibilityList":
        """The same list through another's eyes."""
        return SqlCompatibilityList(self._engine, self._clock, viewer)

    def current(self, predicate: str = "", *, limit: int = 1000) -> Sequence[Mapping[str, object]]:
        """Rows of the current entries that match the predicate, by model, platform and key. BadInputError."""
        condition = where(parse(predicate, QUERY_FIELDS), dict(current_view.c.items()))
        order = [current_view.c[name] for name in ("model", "platform", "mode", "engine", "dtype", "plan", "entry_id")]
        query = select(current_view).where(condition).order_by(*order).limit(_sane(limit))
        with transaction(self._engine) as session:
            sight = sight_of(session, self._viewer, self._clock.now())
            query = query.where(seen_by(sight, current_view.c.model, current_view.c.platform))
            return rows_of(session.execute(query))

    def rollup(self) -> Sequence[Mapping[str, object]]:
        """One row a model × platform, by both."""
        query = select(rollup_view).order_by(rollup_view.c.model, rollup_view.c.platform)
        with transaction(self._engine) as session:
            sight = sight_of(session, self._viewer, self._clock.now())
            query = query.where(seen_by(sight, rollup_view.c.model, rollup_view.c.platform))
            return rows_of(session.execute(query))

    def clock(self, model: str | None = None, platform: str | None = None) -> Sequence[Mapping[str, object]]:
        """One row a model × platform with what took the time, the latest weights first."""
        query = select(clock_view).order_by(clock_view.c.weights_live_at.desc().nulls_last(), clock_view.c.model)
        query = query.order_by(clock_view.c.platform)
        with transaction(self._engine) as session:
            if model is not None:
                known = named(session, model)
                query = query.where(clock_view.c.model == (model if known is None else known.name))
            if platform is not None:
                query = query.where(clock_view.c.platform == platform)
            sight = sight_of(session, self._viewer, self._clock.now())
            query = query.where(seen_by(sight, clock_view.c.model, clock_view.c.platform))
            return rows_of(session.execute(query))

    def league(self, target_s: float = TARGET_S) -> Sequence[Mapping[str, object]]:
        """One row a platform, the best first, over the models that the viewer sees."""
        return league(self.clock(), target_s)

    def entry(self, entry_id: str) -> CompatibilityEntry:
        """One entry; an unambiguous prefix of its id will do. NotFoundError, BadInputError (ambiguous)."""
        if not entry_id or not _HEX.issuperset(entry_id):
            raise NotFoundError(f"{entry_id[:80]!r} is no id of an entry.", remedy="See `dayzero compat ls`.")
        query = select(EntryRow.document).where(EntryRow.id.startswith(entry_id)).order_by(EntryRow.id).limit(2)
        with transaction(self._engine) as session:
            sight = sight_of(session, self._viewer, self._clock.now())
            query = query.where(seen_by(sight, *_MODEL_AND_PLATFORM))
            found = session.execute(query).scalars().all()
        if not found:
            raise NotFoundError(f"there is no entry {entry_id[:80]}.", remedy="See `dayzero compat ls`.")
        if len(found) > 1:
            raise BadInputError(f"several entries have ids that begin with {entry_id}.", remedy="Give more of the id.")
        return noun_of(CompatibilityEntry, found[0])

    def history(self, model: str, platform: str | None = None) -> Sequence[Mapping[str, object]]:
        """Every version of the model's entries (by its name or an alias), the newest first. NotFoundError."""
        with transaction(self._engine) as session:
            sight = sight_of(session, self._viewer, self._clock.now())
            known = named(session, model)
            if known is None or not sight.sees(known.name):
                raise NotFoundError(f"no model {model} is known.", remedy="See `dayzero compat ls` for those that are.")
            query = (
                select(versions_view)
                .join(EntryRow, EntryRow.id == versions_view.c.entry_id)
                .where(EntryRow.model_id == known.id, seen_by(sight, *_MODEL_AND_PLATFORM))
                .order_by(EntryRow.seq.desc())
            )
            if platform is not None:
                query = query.where(versions_view.c.platform == platform)
            return rows_of(session.execute(query))

    def stacks(self, platform: str) -> Sequence[Stack]:
        """Every stack that was told of for the platform, the newest first."""
        query = select(StackRow.components).where(StackRow.platform == platform).order_by(StackRow.told_seq.desc())
        with transaction(self._engine) as session:
            return tuple(Stack(platform, components) for components in session.execute(query).scalars())


def _sane(limit: int) -> int:
    if limit < 1:
        raise BadInputError(f"a limit of {limit} rows shows nothing.", remedy="Give a limit of 1 or more.")
    return min(limit, 1_000_000)


def rows_of(found: Result[Any]) -> tuple[Mapping[str, object], ...]:
    """Rows of a view, as people get them."""
    # A page may have a thousand rows of thirty columns: names are asked for once, and text is what most values are.
    names = tuple(found.keys())
    return tuple(
        {name: value if type(value) is str else _value(value) for name, value in zip(names, row, strict=True)} for row in found
    )


def _value(value: object) -> object:
    """Moments in UTC; whole numbers as int, since views state every number as a double."""
    if value is None:
        return None
    if isinstance(value, datetime):
        return utc(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value
