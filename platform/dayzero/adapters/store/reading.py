"""The list as pages and queries read it: keyset pages over what stands, never the whole history."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Engine, Select, and_, func, literal, or_, select, text, true, tuple_
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.orm import Session

from dayzero.adapters.store.compatibility import QUERY_FIELDS, rows_of
from dayzero.adapters.store.connection import transaction
from dayzero.adapters.store.cursors import Place, cursor_of, place_of
from dayzero.adapters.store.predicate_sql import where
from dayzero.adapters.store.reading_clock import LEAGUE_FOR_S, SIGHTS
from dayzero.adapters.store.reading_work import WorkReading
from dayzero.adapters.store.rows import utc
from dayzero.adapters.store.tables import ModelAliasRow, ModelRow, PlatformRow
from dayzero.adapters.store.tables_telling import StandingRow
from dayzero.adapters.store.views import cells_view, current_view, rollup_view
from dayzero.adapters.store.visibility import seen_by, sight_of
from dayzero.domain.access import ANYONE, Sight, Viewer
from dayzero.domain.listing import Cell, Matrix, MatrixLine, MatrixSort, Page
from dayzero.errors import BadInputError
from dayzero.kept import Kept
from dayzero.ports.running import Clock
from dayzero.stages.day_zero.league import TARGET_S
from dayzero.stages.predicates.text import parse

MAX_ROWS = 1000
MAX_SEARCH_CHARACTERS = 200
_c = current_view.c
_k = cells_view.c
_ORDER = (_c.model, _c.platform, _c.mode, _c.engine, _c.dtype, _c.plan, _c.content_id, _c.stack_fingerprint)
"""The parts of an entry's key: whatever is written meanwhile, an entry keeps its place."""

_BEST = (
    (_c.freshness == "current").desc(),
    func.array_position(text("ARRAY['verified', 'functional', 'failing', 'unknown']"), _c.correctness),
    func.array_position(text("ARRAY['done', 'blocked', 'adapting', 'staged', 'predicted']"), _c.lifecycle),
    _c.recorded_at.desc(),
    _c.entry_id,
)
"""The order of the view compatibility_rollup."""

_COUNTED: Mapping[str, ColumnElement[bool]] = {
    "verified": and_(_c.correctness == "verified", _c.freshness == "current"),
    "functional": and_(_c.correctness == "functional", _c.freshness == "current"),
    "failing": and_(_c.correctness == "failing", _c.freshness == "current"),
    "unknown": and_(_c.correctness == "unknown", _c.freshness == "current"),
    "stale": _c.freshness == "stale",
}


class SqlReading(WorkReading):
    """ports.reading.Reading on PostgreSQL; give it an engine whose statements are read-only and limited in time."""

    def __init__(self, engine: Engine, clock: Clock, viewer: Viewer = ANYONE, target_s: float = TARGET_S) -> None:
        self._engine = engine
        self._clock = clock
        self._viewer = viewer
        self._target_s = target_s
        self._leagues = Kept(clock, LEAGUE_FOR_S, SIGHTS)

    def seen_by(self, viewer: Viewer) -> "SqlReading":
        """The same through another's eyes."""
        other = copy(self)
        other._viewer = viewer
        return other

    @contextmanager
    def _opened(self) -> Iterator[tuple[Session, Sight]]:
        with transaction(self._engine) as session:
            yield session, sight_of(session, self._viewer, self._clock.now())

    def entries(self, predicate: str = "", *, search: str = "", limit: int = 100, cursor: str | None = None) -> Page:
        """Current entries that match, by model, platform and key; see the port."""
        wanted = matching(predicate, search)
        if cursor is not None:
            wanted = and_(wanted, tuple_(*_ORDER) > tuple_(*place_of(cursor, [str] * len(_ORDER))))
        size = sane(limit)
        with self._opened() as (session, sight):
            query = select(current_view).where(wanted, seen_by(sight, _c.model, _c.platform)).order_by(*_ORDER).limit(size + 1)
            rows = rows_of(session.execute(query))
        more = len(rows) > size
        place: list[Place] = [str(rows[size - 1][column.name]) for column in _ORDER] if more else []
        return Page(rows[:size], cursor_of(place) if more else None)

    def rollup(self, *, limit: int = 1000, cursor: str | None = None) -> Page:
        """One row a model × platform, by both."""
        size = sane(limit)
        columns = rollup_view.c
        query = select(rollup_view).order_by(columns.model, columns.platform).limit(size + 1)
        if cursor is not None:
            query = query.where(tuple_(columns.model, columns.platform) > tuple_(*place_of(cursor, [str, str])))
        with self._opened() as (session, sight):
            query = query.where(seen_by(sight, columns.model, columns.platform))
            rows = rows_of(session.execute(query))
        last = rows[size - 1] if len(rows) > size else None
        return Page(rows[:size], None if last is None else cursor_of([str(last["model"]), str(last["platform"])]))

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
        size = sane(limit)
        asked = _Kept(search) if not predicate.strip() else _Filtered(predicate, search)
        with self._opened() as (session, sight):
            query = _models(asked.groups(sight), sort, cursor).limit(size + 1)
            found = [dict(row) for row in session.execute(query).mappings()]
            names = [row["model"] for row in found[:size]]
            platforms = tuple(session.execute(_platforms(sight)).scalars()) if names else ()
            cells = session.execute(asked.cells(sight, names)).all() if names else ()
        lines = _lines(found[:size], cells)
        counts = {name: int(found[0][f"all_{name}"]) for name in (*_COUNTED, "entries", "models")} if found else {}
        more = len(found) > size
        return Matrix(platforms, lines, counts, cursor_of(_place(found[size - 1], sort)) if more else None)


def matching(predicate: str, search: str) -> ColumnElement[bool]:
    """The condition of a filter and of words that a model's name or alias holds; BadInputError."""
    return and_(where(parse(predicate, QUERY_FIELDS), dict(_c.items())), _named(_c.model, search))


def _named(model: ColumnElement[str], search: str) -> ColumnElement[bool]:
    words = words_of(search)
    if not words:
        return true()
    asked = func.to_tsquery(text("'simple'"), " & ".join(f"{word}:*" for word in words))
    aliases = select(ModelAliasRow.model_id).where(ModelAliasRow.words.op("@@")(asked))
    return model.in_(select(ModelRow.name).where(or_(ModelRow.words.op("@@")(asked), ModelRow.id.in_(aliases))))


class _Kept:
    """The matrix of all that stands, from the rows that are kept a model and platform."""

    def __init__(self, search: str) -> None:
        self._wanted = _named(_k.model, search)

    def groups(self, sight: Sight) -> Select[Any]:
        """A row a model, with counts."""
        counts = [func.sum(_k[name]).label(name) for name in ("entries", *_COUNTED)]
        changed = func.max(_k.recorded_at).label("changed")
        wanted = and_(self._wanted, seen_by(sight, _k.model, _k.platform))
        return select(_k.model, changed, *counts).where(wanted).group_by(_k.model)

    def cells(self, sight: Sight, names: Sequence[str]) -> Select[Any]:
        """The cells of these models."""
        columns = (_k.model, _k.platform, _k.entry_id, _k.lifecycle, _k.correctness, _k.performance, _k.freshness)
        wanted = and_(_k.model.in_(names), seen_by(sight, _k.model, _k.platform))
        return select(*columns, _k.best_recorded_at, _k.entries).where(wanted)


class _Filtered:
    """The matrix of what matches a filter, counted and chosen anew."""

    def __init__(self, predicate: str, search: str) -> None:
        self._wanted = matching(predicate, search)

    def groups(self, sight: Sight) -> Select[Any]:
        """A row a model, with counts."""
        counts = [func.count().filter(condition).label(name) for name, condition in _COUNTED.items()]
        columns = (_c.model, func.max(_c.recorded_at).label("changed"), func.count().label("entries"), *counts)
        return select(*columns).where(self._wanted, seen_by(sight, _c.model, _c.platform)).group_by(_c.model)

    def cells(self, sight: Sight, names: Sequence[str]) -> Select[Any]:
        """The best entry of each of these models on each platform, and how many match."""
        whole = func.count().over(partition_by=(_c.model, _c.platform)).label("entries")
        columns = (_c.model, _c.platform, _c.entry_id, _c.lifecycle, _c.correctness, _c.performance, _c.freshness)
        wanted = and_(self._wanted, _c.model.in_(names), seen_by(sight, _c.model, _c.platform))
        query = select(*columns, _c.recorded_at, whole).where(wanted)
        return query.ext(distinct_on(_c.model, _c.platform)).order_by(_c.model, _c.platform, *_BEST)


def words_of(search: str) -> list[str]:
    """The words of a search, as names are cut into words; BadInputError for one that is absurdly long."""
    if len(search) > MAX_SEARCH_CHARACTERS:
        raise BadInputError(
            f"the search has {len(search)} characters, more than {MAX_SEARCH_CHARACTERS}.", remedy="Search for a few words."
        )
    return re.findall(r"[^\W_]+", search.lower())


def sane(limit: int) -> int:
    """The number of rows, if it is from 1 to 1000; BadInputError."""
    if not 1 <= limit <= MAX_ROWS:
        raise BadInputError(f"a page has 1 to {MAX_ROWS} rows, not {limit}.", remedy="Follow `next` for more.")
    return limit


def _models(asked: Select[Any], sort: MatrixSort, cursor: str | None) -> Select[Any]:
    """A row a model in the wanted order, after the cursor, with counts over all models."""
    groups = asked.cte("groups").prefix_with("MATERIALIZED", dialect="postgresql")
    counts = [func.coalesce(func.sum(groups.c[name]), 0).label(f"all_{name}") for name in (*_COUNTED, "entries")]
    totals = select(*counts, func.count().label("all_models")).select_from(groups).subquery("totals")
    query = select(groups, *totals.c).select_from(groups.join(totals, true()))
    if sort is MatrixSort.MODEL:
        after = [] if cursor is None else [groups.c.model > place_of(cursor, [str])[0]]
        return query.where(*after).order_by(groups.c.model)
    key = groups.c[sort.value]
    if cursor is not None:
        value, model = place_of(cursor, [_kind(sort), str])
        query = query.where(or_(key < value, and_(key == value, groups.c.model > model)))
    return query.order_by(key.desc(), groups.c.model)


def _kind(sort: MatrixSort) -> type[Place]:
    return datetime if sort is MatrixSort.CHANGED else int


def _place(row: Mapping[str, Any], sort: MatrixSort) -> list[Place]:
    if sort is MatrixSort.MODEL:
        return [row["model"]]
    value = row[sort.value]
    return [utc(value) if sort is MatrixSort.CHANGED else int(value), row["model"]]


def _platforms(sight: Sight) -> Select[Any]:
    """Slugs of platforms with an entry that the viewer sees."""
    visible = select(literal(1)).where(StandingRow.platform == PlatformRow.slug)
    visible = visible.where(seen_by(sight, StandingRow.model, StandingRow.platform))
    return select(PlatformRow.slug).where(visible.exists()).order_by(PlatformRow.slug)


def _lines(models: Sequence[Mapping[str, Any]], cells: Sequence[Any]) -> tuple[MatrixLine, ...]:
    by_model: dict[str, dict[str, Cell]] = {}
    for model, platform, entry_id, lifecycle, correctness, performance, freshness, recorded_at, entries in cells:
        cell = Cell(entry_id, lifecycle, correctness, performance, freshness, recorded_at, int(entries))
        by_model.setdefault(model, {})[platform] = cell
    return tuple(MatrixLine(row["model"], utc(row["changed"]), by_model.get(row["model"], {})) for row in models)
