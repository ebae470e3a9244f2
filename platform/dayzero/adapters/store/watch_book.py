"""Sources, and the releases seen on them."""

from collections.abc import Sequence
from datetime import datetime
from uuid import uuid4

from sqlalchemy import ColumnElement, Engine, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from dayzero.adapters.store.connection import transaction
from dayzero.adapters.store.entries import is_standing, mark_stale
from dayzero.adapters.store.events import release_fields, write_event
from dayzero.adapters.store.limits import document_of, short_name
from dayzero.adapters.store.models import model_of
from dayzero.adapters.store.rows import maybe_utc, source_of
from dayzero.adapters.store.tables import ModelRow, ReleaseRow, SourceRow
from dayzero.adapters.store.tables_telling import SightingRow
from dayzero.adapters.store.work import request_prestage, request_work
from dayzero.domain.adaptation import Purpose
from dayzero.domain.canonical import digest, plain
from dayzero.domain.events import EventKind
from dayzero.domain.release import FileRole, HubKind, Release, ReleaseStage, content_id_of
from dayzero.domain.verdict import Mode
from dayzero.domain.watching import Rule, WatchSource
from dayzero.errors import NotFoundError
from dayzero.ports.catalog import PassedOver, Recorded, SeenRepo
from dayzero.ports.running import Clock

_NOTES_AT_ONCE = 500
_LOCK = 0x72656C73  # "rels": releases are recorded one after the other
_ORDER = (ReleaseStage.ANNOUNCED, ReleaseStage.CONFIG, ReleaseStage.WEIGHTS_PARTIAL, ReleaseStage.WEIGHTS)
_GONE = (ReleaseStage.SUPERSEDED.value, ReleaseStage.WITHDRAWN.value)


class SqlWatchBook:
    """ports.catalog.WatchBook on PostgreSQL."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def sources(self) -> Sequence[WatchSource]:
        """Every source, the oldest first."""
        query = select(SourceRow).order_by(SourceRow.seq)
        with transaction(self._engine) as session:
            return tuple(source_of(row) for row in session.execute(query).scalars())

    def add_source(self, hub: HubKind, location: str, rule: Rule, since: datetime | None) -> WatchSource:
        """A new source; the same hub, location and rule again returns the existing one."""
        unique = {"hub": hub.value, "location": short_name(location, "a source's location"), "rule_digest": digest(rule)}
        with transaction(self._engine) as session:
            session.execute(
                insert(SourceRow)
                .values(
                    **unique, id=str(uuid4()), rule=plain(rule), since=maybe_utc(since), enabled=True,
                    created_at=self._clock.now(),
                )
                .on_conflict_do_nothing()
            )  # fmt: skip
            return source_of(session.execute(select(SourceRow).filter_by(**unique)).scalar_one())

    def remove_source(self, source_id: str) -> None:
        """Stop watching; releases seen stay. NotFoundError."""
        with transaction(self._engine) as session:
            session.delete(_source(session, source_id))

    def polled(self, source_id: str, error: str | None) -> None:
        """Note the time of a poll and what went wrong in it. NotFoundError."""
        with transaction(self._engine) as session:
            row = _source(session, source_id)
            row.last_polled_at, row.last_error = self._clock.now(), error

    def passed_over(self, source_id: str, noted: Sequence[PassedOver]) -> None:
        """Note repositories that a poll did not take, and why; what was noted of one before is replaced if it differs."""
        now = self._clock.now()
        rows = [
            {
                "source_id": source_id,
                "repo_id": one.repo_id[:1000],
                "reason": one.reason[:2000],
                "failed": one.failed,
                "seen_at": now,
            }
            for one in {one.repo_id: one for one in noted}.values()
        ]
        with transaction(self._engine) as session:
            if session.get(SourceRow, source_id) is None:
                return
            for first in range(0, len(rows), _NOTES_AT_ONCE):
                made = insert(SightingRow).values(rows[first : first + _NOTES_AT_ONCE])
                new = {name: made.excluded[name] for name in ("reason", "failed", "seen_at")}
                differs = (SightingRow.reason != made.excluded.reason) | (SightingRow.failed != made.excluded.failed)
                keys = ["source_id", "repo_id"]
                session.execute(made.on_conflict_do_update(index_elements=keys, set_=new, where=differs))

    def seen(self, hub: HubKind, endpoint: str | None, repo_id: str) -> SeenRepo | None:
        """The newest recorded release of a repository; one that stands comes before a superseded one."""
        query = (
            select(ReleaseRow)
            .where(*_same_repository(hub, endpoint, repo_id))
            .order_by((ReleaseRow.stage == ReleaseStage.SUPERSEDED.value).asc(), ReleaseRow.seq.desc())
            .limit(1)
        )
        with transaction(self._engine) as session:
            row = session.execute(query).scalar_one_or_none()
        return None if row is None else SeenRepo(row.id, row.revision, ReleaseStage(row.stage), row.content_id)

    def record_release(self, release: Release, platforms: Sequence[str]) -> Recorded:
        """Record a release and all that follows from it, in one transaction; see the port."""
        document_of(release, f"release {release.repo_id[:80]}")
        short_name(release.repo_id, "a repository's id")
        short_name(release.revision, "a revision")
        with transaction(self._engine) as session:
            session.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            return _record(session, release, tuple(dict.fromkeys(platforms)), self._clock.now())


def _source(session: Session, source_id: str) -> SourceRow:
    row = session.get(SourceRow, source_id)
    if row is None:
        raise NotFoundError(f"there is no watched source {source_id}.", remedy="See `dayzero watch ls`.")
    return row


def _same_repository(hub: HubKind, endpoint: str | None, repo_id: str) -> tuple[ColumnElement[bool], ...]:
    return (ReleaseRow.hub == hub.value, ReleaseRow.endpoint == (endpoint or ""), ReleaseRow.repo_id == repo_id)


def _record(session: Session, release: Release, platforms: Sequence[str], now: datetime) -> Recorded:
    others = list(
        session.execute(
            select(ReleaseRow).where(*_same_repository(release.hub, release.endpoint, release.repo_id)).order_by(ReleaseRow.seq)
        ).scalars()
    )
    row = next((other for other in others if other.revision == release.revision), None)
    new = row is None
    if row is None:
        row = _insert(session, release, now)
        before = None
    else:
        others.remove(row)
        before = ReleaseStage(row.stage)
        if not _moved_on(before, release):
            return Recorded(row.id, False, _request(session, row, release, platforms, now))
        _update(row, release)
    _note_times(row, release.stage, now)
    model = session.get_one(ModelRow, row.model_id)
    known_content = any(other.content_id == row.content_id and other.stage == row.stage for other in others)
    kind = _event_kind(release.stage, before, others)
    if kind is not None and not known_content:
        write_event(session, kind, model.name, now, release_fields(row))
    made: list[str] = []
    if not known_content and release.stage in _ORDER:
        for platform, mode in _supersede(session, row, others, model.name, now):
            adaptation_id, is_new = request_work(session, row, platform, Purpose.ADAPT, mode, now)
            made += [adaptation_id] if is_new else []
    return Recorded(row.id, new, (*made, *_request(session, row, release, platforms, now)))


def _moved_on(before: ReleaseStage, release: Release) -> bool:
    """Whether what the hub shows now is further than what is recorded; going back (a listing cut short) is not."""
    if release.stage is ReleaseStage.WITHDRAWN or before is ReleaseStage.WITHDRAWN:
        return before is not release.stage
    if before not in _ORDER or release.stage not in _ORDER:
        return False
    return _ORDER.index(release.stage) > _ORDER.index(before)


def _insert(session: Session, release: Release, now: datetime) -> ReleaseRow:
    row = ReleaseRow(
        id=str(uuid4()),
        model_id=model_of(session, release, now).id,
        hub=release.hub.value,
        endpoint=release.endpoint or "",
        repo_id=release.repo_id,
        revision=release.revision,
        recorded_at=now,
    )
    _update(row, release)
    session.add(row)
    session.flush()
    return row


def _update(row: ReleaseRow, release: Release) -> None:
    configuration = (file for file in release.files if file.role in (FileRole.CONFIGURATION, FileRole.REMOTE_CODE))
    row.stage = release.stage.value
    row.content_id = release.content_id
    row.configuration_digest = content_id_of(configuration)
    row.document = document_of(release, f"release {release.repo_id[:80]}")
    row.published_at = maybe_utc(release.published_at)


def _note_times(row: ReleaseRow, stage: ReleaseStage, now: datetime) -> None:
    if stage is ReleaseStage.ANNOUNCED:
        row.announced_at = row.announced_at or now
    elif stage in _ORDER:
        row.config_seen_at = row.config_seen_at or now
    if stage is ReleaseStage.WEIGHTS:
        row.weights_seen_at = row.weights_seen_at or now


def _event_kind(stage: ReleaseStage, before: ReleaseStage | None, others: Sequence[ReleaseRow]) -> EventKind | None:
    if stage is ReleaseStage.WEIGHTS_PARTIAL:
        # Partial weights are news only where the configuration was not seen before.
        seen = before is ReleaseStage.CONFIG or any(other.config_seen_at is not None for other in others)
        return None if seen else EventKind.RELEASE_CONFIG_PUBLISHED
    return {
        ReleaseStage.ANNOUNCED: EventKind.RELEASE_ANNOUNCED,
        ReleaseStage.CONFIG: EventKind.RELEASE_CONFIG_PUBLISHED,
        ReleaseStage.WEIGHTS: EventKind.RELEASE_WEIGHTS_LIVE,
        ReleaseStage.SUPERSEDED: EventKind.RELEASE_SUPERSEDED,
        ReleaseStage.WITHDRAWN: EventKind.RELEASE_WITHDRAWN,
    }.get(stage)


def _supersede(
    session: Session, row: ReleaseRow, others: Sequence[ReleaseRow], model: str, now: datetime
) -> tuple[tuple[str, Mode], ...]:
    """Earlier releases with other content are superseded; one that the hub published later is not earlier.

    Returns the platforms and modes whose entries are stale by it: the new release has to show itself there.
    """
    marked: list[tuple[str, Mode]] = []
    for other in others:
        if other.stage in _GONE or other.content_id == row.content_id:
            continue
        if other.published_at and row.published_at and other.published_at > row.published_at:
            continue
        other.stage = ReleaseStage.SUPERSEDED.value
        session.flush()
        write_event(session, EventKind.RELEASE_SUPERSEDED, model, now, release_fields(other))
        if row.stage == ReleaseStage.WEIGHTS.value and not is_standing(session, other):
            marked += mark_stale(session, other, f"superseded by revision {row.revision}", now)
    return tuple(dict.fromkeys(marked))


def _request(session: Session, row: ReleaseRow, release: Release, platforms: Sequence[str], now: datetime) -> tuple[str, ...]:
    """Ids of the adaptations that were made now."""
    made = []
    for platform in platforms:
        if release.stage is ReleaseStage.WEIGHTS:
            adaptation_id, is_new = request_work(session, row, platform, Purpose.ADAPT, Mode.INFERENCE, now)
            if is_new:
                made.append(adaptation_id)
        elif release.stage in _ORDER and any(file.role is FileRole.CONFIGURATION for file in release.files):
            prestage_id = request_prestage(session, row, platform, now)
            if prestage_id is not None:
                made.append(prestage_id)
    return tuple(made)
