"""Models, platforms, releases and runs as pages read them."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import and_, func, or_, select
from sqlalchemy.orm import Session

from dayzero.adapters.store.compatibility import rows_of
from dayzero.adapters.store.cursors import cursor_of, place_of
from dayzero.adapters.store.failures import known_failures
from dayzero.adapters.store.models import named
from dayzero.adapters.store.reading_clock import ClockReading
from dayzero.adapters.store.rows import STATES_GOING_ON, adaptation_of, adaptation_row, adaptations_query, maybe_utc, utc
from dayzero.adapters.store.tables import AdaptationRow, ModelAliasRow, ModelRow, PlatformRow, ReleaseRow, SourceRow
from dayzero.adapters.store.tables_telling import EntryRow, SightingRow, StandingRow, WorkerRow
from dayzero.adapters.store.views import cells_view, current_view, versions_view
from dayzero.adapters.store.visibility import seen_by
from dayzero.domain.access import Sight
from dayzero.domain.adaptation import Adaptation, AdaptationState
from dayzero.domain.failures import RankedGap
from dayzero.domain.listing import FeedPage, Gap, ModelView, PlatformView, RunPage, SeenRelease, Sighting, Tally
from dayzero.errors import BadInputError, NotFoundError
from dayzero.stages.failures.foretelling import ranked_gaps

ALIVE_WITHIN_S = 60.0
_HISTORY_ROWS = 25
_MODEL_ROWS = 100
_NEWEST_ROWS = 25
_GAP_ROWS = 30
_EXAMPLES = 5
_c = current_view.c


class WorkReading(ClockReading):
    """The half of ports.reading.Reading that is about the work."""

    def model(self, name: str) -> ModelView:
        """A model by its name or an alias. NotFoundError."""
        with self._opened() as (session, sight):
            known = named(session, name)
            if known is None or not sight.sees(known.name):
                raise NotFoundError(f"no model {name[:200]} is known.", remedy="Look for it in the list of models.")
            aliases = select(ModelAliasRow.alias).where(ModelAliasRow.model_id == known.id).order_by(ModelAliasRow.alias)
            releases = select(ReleaseRow, ModelRow.name).join(ModelRow).where(ReleaseRow.model_id == known.id)
            found = session.execute(releases.order_by(ReleaseRow.seq.desc()).limit(_NEWEST_ROWS)).all()
            visible = seen_by(sight, _c.model, _c.platform)
            entries = select(current_view).where(_c.model == known.name, visible)
            rows = rows_of(session.execute(entries.order_by(_c.platform, _c.recorded_at.desc()).limit(_MODEL_ROWS)))
            runs = adaptations_query().where(
                AdaptationRow.model_id == known.id, seen_by(sight, ModelRow.name, AdaptationRow.platform)
            )
            work = session.execute(runs.order_by(AdaptationRow.seq.desc()).limit(_NEWEST_ROWS)).all()
            return ModelView(
                known.name,
                tuple(session.execute(aliases).scalars()),
                _releases(session, found, sight),
                rows,
                tuple(adaptation_of(row, model) for row, model in work),
                _history(session, known.id, sight),
            )

    def platforms(self) -> Sequence[PlatformView]:
        """Every platform that is seen, without gaps and newest entries."""
        with self._opened() as (session, sight):
            slugs = session.execute(select(PlatformRow.slug).order_by(PlatformRow.slug)).scalars().all()
            facts, places = _platform_facts(session, sight, None, self._clock.now()), self._places(session, sight)
            seen = [slug for slug in slugs if sight.sees(None, slug)]
            return [_platform(slug, facts.get(slug, {}), places.get(slug, {}), self._target_s) for slug in seen]

    def platform(self, slug: str) -> PlatformView:
        """A platform that somebody asked about. NotFoundError."""
        with self._opened() as (session, sight):
            if session.get(PlatformRow, slug) is None or not sight.sees(None, slug):
                raise NotFoundError(f"nobody has asked about a platform {slug[:200]} yet.", remedy="See the list of platforms.")
            facts = _platform_facts(session, sight, slug, self._clock.now()).get(slug, {})
            place = self._places(session, sight).get(slug, {})
            gaps = tuple(_gap(one) for one in ranked_gaps(known_failures(session, sight, slug))[:_GAP_ROWS])
            visible = seen_by(sight, _c.model, _c.platform)
            newest = select(current_view).where(_c.platform == slug, visible).order_by(_c.recorded_at.desc())
            rows = rows_of(session.execute(newest.limit(_NEWEST_ROWS)))
            return _platform(slug, facts, place, self._target_s, gaps, rows)

    def releases(self, *, limit: int = 20, cursor: str | None = None) -> FeedPage:
        """Releases that were taken, the newest first."""
        query = select(ReleaseRow, ModelRow.name).join(ModelRow).order_by(ReleaseRow.seq.desc()).limit(limit + 1)
        if cursor is not None:
            query = query.where(ReleaseRow.seq < place_of(cursor, [int])[0])
        with self._opened() as (session, sight):
            found = session.execute(query.where(seen_by(sight, ModelRow.name))).all()
            after = cursor_of([found[limit - 1][0].seq]) if len(found) > limit else None
            return FeedPage(releases=_releases(session, found[:limit], sight), next=after)

    def sightings(self, *, limit: int = 50, cursor: str | None = None) -> FeedPage:
        """Repositories that were not taken, the newest decision first."""
        order = (SightingRow.seen_at.desc(), SightingRow.source_id, SightingRow.repo_id)
        taken = select(ReleaseRow.id).where(ReleaseRow.hub == SourceRow.hub, ReleaseRow.repo_id == SightingRow.repo_id)
        query = select(SightingRow, SourceRow).join(SourceRow).order_by(*order).limit(limit + 1)
        query = query.where(~taken.where(ReleaseRow.recorded_at >= SightingRow.seen_at).exists())
        if cursor is not None:
            at, source, repo = place_of(cursor, [datetime, str, str])
            same = and_(SightingRow.seen_at == at, SightingRow.source_id == source, SightingRow.repo_id > repo)
            later = and_(SightingRow.seen_at == at, SightingRow.source_id > source)
            query = query.where(or_(SightingRow.seen_at < at, later, same))
        with self._opened() as (session, sight):
            found = session.execute(query.where(seen_by(sight, SightingRow.repo_id))).all()
        rows = tuple(
            Sighting(source.location, source.hub, row.repo_id, row.reason, row.failed, utc(row.seen_at))
            for row, source in found[:limit]
        )
        last = found[limit - 1][0] if len(found) > limit else None
        after = None if last is None else cursor_of([utc(last.seen_at), last.source_id, last.repo_id])
        return FeedPage(sightings=rows, next=after)

    def runs(self, state: str | None = None, *, limit: int = 50, cursor: str | None = None) -> RunPage:
        """Adaptations, the newest first. BadInputError: no such state."""
        query = adaptations_query().order_by(AdaptationRow.seq.desc()).limit(limit + 1)
        if state:
            query = query.where(AdaptationRow.state == _state(state))
        if cursor is not None:
            query = query.where(AdaptationRow.seq < place_of(cursor, [int])[0])
        with self._opened() as (session, sight):
            found = session.execute(query.where(seen_by(sight, ModelRow.name, AdaptationRow.platform))).all()
        after = cursor_of([found[limit - 1][0].seq]) if len(found) > limit else None
        return RunPage(tuple(adaptation_of(row, model) for row, model in found[:limit]), after)

    def changed_runs(self, within_s: float) -> Sequence[Adaptation]:
        """Adaptations that go on, or that ended within so many seconds; the newest 500."""
        since = self._clock.now() - timedelta(seconds=within_s)
        changed = or_(AdaptationRow.state.in_(STATES_GOING_ON), AdaptationRow.finished_at >= since)
        query = adaptations_query().where(changed).order_by(AdaptationRow.seq.desc()).limit(500)
        with self._opened() as (session, sight):
            found = session.execute(query.where(seen_by(sight, ModelRow.name, AdaptationRow.platform))).all()
        return [adaptation_of(row, model) for row, model in found]

    def run(self, adaptation_id: str) -> Adaptation:
        """One adaptation. NotFoundError."""
        with self._opened() as (session, sight):
            row, model = adaptation_row(session, adaptation_id)
            if not sight.sees(model, row.platform):
                raise NotFoundError(f"there is no adaptation {adaptation_id}.", remedy="See `dayzero run ls`.")
            return adaptation_of(row, model)

    def tally(self) -> Tally:
        """How much there is of everything."""
        with self._opened() as (session, sight):
            sources = session.execute(select(func.count()).select_from(SourceRow)).scalar_one()
            seen = select(func.count()).select_from(ReleaseRow).join(ModelRow).where(seen_by(sight, ModelRow.name))
            visible = seen_by(sight, StandingRow.model, StandingRow.platform)
            entries = select(func.count()).select_from(StandingRow).where(visible)
            states = select(AdaptationRow.state, func.count()).join(ModelRow, ModelRow.id == AdaptationRow.model_id)
            states = states.where(seen_by(sight, ModelRow.name, AdaptationRow.platform)).group_by(AdaptationRow.state)
            runs = {state: int(count) for state, count in session.execute(states)}
            return Tally(sources, session.execute(seen).scalar_one(), session.execute(entries).scalar_one(), runs)


def _state(state: str) -> str:
    known = [one.value for one in AdaptationState]
    if state not in known:
        raise BadInputError(f"{state[:40]!r} is no state of an adaptation.", remedy=f"They are {', '.join(known)}.")
    return state


def _history(session: Session, model_id: str, sight: Sight) -> tuple[Mapping[str, object], ...]:
    """The newest versions; their ids are found in the narrow table first, so that no document is read in vain."""
    visible = seen_by(sight, EntryRow.model, EntryRow.platform)
    newest = select(EntryRow.id, EntryRow.seq).where(EntryRow.model_id == model_id, visible)
    ids = newest.order_by(EntryRow.seq.desc()).limit(_HISTORY_ROWS).subquery()
    query = select(versions_view).join(ids, ids.c.id == versions_view.c.entry_id).order_by(ids.c.seq.desc())
    return rows_of(session.execute(query))


def _releases(session: Session, found: Sequence[Any], sight: Sight) -> tuple[SeenRelease, ...]:
    ids = [row.id for row, _ in found]
    columns = (AdaptationRow.release_id, AdaptationRow.id, AdaptationRow.platform, AdaptationRow.purpose, AdaptationRow.state)
    visible = seen_by(sight, ModelRow.name, AdaptationRow.platform)
    query = select(*columns).join(ModelRow, ModelRow.id == AdaptationRow.model_id)
    query = query.where(AdaptationRow.release_id.in_(ids), visible).order_by(AdaptationRow.platform, AdaptationRow.seq)
    work: dict[str, list[tuple[str, str, str, str]]] = {}
    for release_id, *rest in session.execute(query):
        work.setdefault(release_id, []).append((rest[0], rest[1], rest[2], rest[3]))
    return tuple(
        SeenRelease(
            row.id, model, row.hub, row.repo_id, row.revision, row.stage, maybe_utc(row.published_at), utc(row.recorded_at),
            tuple(work.get(row.id, ())),
        )
        for row, model in found
    )  # fmt: skip


def _platform_facts(session: Session, sight: Sight, slug: str | None, now: datetime) -> dict[str, dict[str, Any]]:
    """Counts and workers by platform."""
    names = ("verified", "functional", "failing", "unknown", "stale", "entries")
    counts = [func.sum(cells_view.c[name]).label(name) for name in names]
    query = select(cells_view.c.platform, func.count().label("models"), *counts).group_by(cells_view.c.platform)
    query = query.where(seen_by(sight, cells_view.c.model, cells_view.c.platform))
    alive = select(WorkerRow.platform, func.count()).where(WorkerRow.seen_at >= now - timedelta(seconds=ALIVE_WITHIN_S))
    waiting = select(AdaptationRow.platform, func.count()).where(AdaptationRow.state.in_(STATES_GOING_ON))
    waiting = waiting.join(ModelRow, ModelRow.id == AdaptationRow.model_id)
    waiting = waiting.where(seen_by(sight, ModelRow.name, AdaptationRow.platform))
    if slug is not None:
        query = query.where(cells_view.c.platform == slug)
    facts: dict[str, dict[str, Any]] = {row["platform"]: dict(row) for row in session.execute(query).mappings()}
    beside = {"workers": alive.group_by(WorkerRow.platform), "waiting": waiting.group_by(AdaptationRow.platform)}
    for name, counted in beside.items():
        for platform, count in session.execute(counted):
            facts.setdefault(platform, {})[name] = count
    return facts


def _platform(
    slug: str,
    known: Mapping[str, Any],
    place: Mapping[str, Any],
    target_s: float,
    gaps: tuple[Gap, ...] = (),
    newest: tuple[Mapping[str, object], ...] = (),
) -> PlatformView:
    """A platform from its counts and its line of the league."""
    names = ("verified", "functional", "failing", "unknown", "stale", "entries")
    counts = {name: int(known.get(name, 0)) for name in names}
    return PlatformView(
        slug, counts, int(known.get("models", 0)), gaps, int(place.get("verified", 0)), int(place.get("within_target", 0)),
        place.get("median_s"), int(known.get("workers", 0)), int(known.get("waiting", 0)), newest,
        int(place.get("models", 0)), target_s,
    )  # fmt: skip


def _gap(one: RankedGap) -> Gap:
    known = one.failure
    examples = one.models[:_EXAMPLES]
    return Gap(one.operator, len(one.models), len(one.unlocked), examples, known.owner, known.ticket, known.signature)
