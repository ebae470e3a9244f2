"""Adaptations: requested, started, orphaned, finished."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Engine, delete, select
from sqlalchemy.orm import Session

from dayzero.adapters.store import waivers
from dayzero.adapters.store.ageing import end_reruns
from dayzero.adapters.store.connection import transaction
from dayzero.adapters.store.day_zero import clock_of
from dayzero.adapters.store.entries import append_entry
from dayzero.adapters.store.events import Field, adaptation_fields, entry_fields, release_fields, write_event
from dayzero.adapters.store.failures import remember
from dayzero.adapters.store.holding import holds, stale
from dayzero.adapters.store.models import named
from dayzero.adapters.store.rows import adaptation_of, adaptation_row, adaptations_query, utc
from dayzero.adapters.store.tables import (
    AdaptationRow,
    CheckRow,
    LogRow,
    MeasurementRow,
    ModelAliasRow,
    ReleaseRow,
    ResultLinkRow,
)
from dayzero.adapters.store.work import request_work
from dayzero.domain.adaptation import Adaptation, AdaptationState, Lease, Purpose
from dayzero.domain.canonical import plain
from dayzero.domain.entry import CompatibilityEntry, DayZeroClock
from dayzero.domain.events import EventKind
from dayzero.domain.precision_policy import PrecisionPolicy
from dayzero.domain.verdict import Mode
from dayzero.domain.waivers import Waiver
from dayzero.errors import BadInputError, NotFoundError
from dayzero.ports.running import Clock

_ENDS = (AdaptationState.DONE, AdaptationState.BLOCKED, AdaptationState.FAILED)
_ENDED = (*(state.value for state in _ENDS), AdaptationState.CANCELLED.value)


class SqlCatalog:
    """ports.catalog.Catalog on PostgreSQL."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def request(self, release_id: str, platform: str, purpose: Purpose, mode: Mode = Mode.INFERENCE) -> Adaptation:
        """The adaptation of that release's content for that platform, made if there is none yet. NotFoundError."""
        with transaction(self._engine) as session:
            release = session.get(ReleaseRow, release_id)
            if release is None:
                raise NotFoundError(f"there is no release {release_id}.")
            adaptation_id, _ = request_work(session, release, platform, purpose, mode, self._clock.now())
            return adaptation_of(*adaptation_row(session, adaptation_id))

    def adaptations(self, *, model: str | None = None, state: AdaptationState | None = None) -> Sequence[Adaptation]:
        """Adaptations, the newest first; a model goes by its name or an alias."""
        query = adaptations_query().order_by(AdaptationRow.seq.desc())
        with transaction(self._engine) as session:
            if model is not None:
                known = named(session, model)
                if known is None:
                    return ()
                query = query.where(AdaptationRow.model_id == known.id)
            if state is not None:
                query = query.where(AdaptationRow.state == state.value)
            return tuple(adaptation_of(row, name) for row, name in session.execute(query))

    def startable(self, orphan_after_s: float, max_attempts: int) -> Sequence[Adaptation]:
        """Adaptations to start now, each with the attempt number that its next start must carry; see the port.

        A row that another transaction is writing to is left for the next round.
        """
        now = self._clock.now()
        with transaction(self._engine) as session:
            self._release_orphans(session, now, orphan_after_s, max_attempts)
            query = (
                adaptations_query().where(AdaptationRow.state == AdaptationState.REQUESTED.value).order_by(AdaptationRow.seq)
            )
            return tuple(_next_start(row, name) for row, name in session.execute(query))

    def _release_orphans(self, session: Session, now: datetime, orphan_after_s: float, max_attempts: int) -> None:
        silent_since = now - timedelta(seconds=orphan_after_s)
        query = (
            adaptations_query()
            .where(AdaptationRow.state == AdaptationState.RUNNING.value, AdaptationRow.heartbeat_at < silent_since)
            .order_by(AdaptationRow.seq)
            .with_for_update(of=AdaptationRow, skip_locked=True)
        )
        for row, model in session.execute(query).all():
            silence_s = (now - utc(row.heartbeat_at or row.requested_at)).total_seconds()
            died = f"attempt {row.attempt} fell silent for {silence_s:.0f} s at stage {row.stage or 'start'}"
            row.claimant = None
            if row.attempt - row.attempts_before < max_attempts:
                row.state, row.reason = AdaptationState.REQUESTED.value, f"{died}; it is started anew."
                continue
            row.state, row.finished_at = AdaptationState.FAILED.value, now
            row.reason = f"{died}; that was the last of {max_attempts} attempts. `dayzero run retry {row.id}` grants new ones."
            _write_end(session, row, model, now, {})

    def finish(self, lease: Lease, state: AdaptationState, reason: str | None, entry: CompatibilityEntry | None) -> Adaptation:
        """End the attempt, append the entry if it says something new, write the events; see the port."""
        if state not in _ENDS:
            raise BadInputError(f"{state.value} is no end of an attempt; use one of {', '.join(_ENDS)}.")
        now = self._clock.now()
        with transaction(self._engine) as session:
            row, model = adaptation_row(session, lease.adaptation_id, lock=True)
            if row.state in _ENDED and (row.attempt, row.claimant) == (lease.attempt, lease.claimant):
                return adaptation_of(row, model)
            if not holds(lease, row.state, row.attempt, row.claimant):
                raise stale(lease, row.state, row.attempt, row.claimant)
            row.state, row.reason, row.finished_at = state.value, reason, now
            session.flush()
            end_reruns(session, row.id, now)
            if entry is not None:
                remember(session, row, model, entry.failures, now)
            appended = None if entry is None else append_entry(session, row, model, entry, now)
            _write_end(session, row, model, now, {} if appended is None else entry_fields(appended))
            return adaptation_of(row, model)

    def hold(self, adaptation_id: str, reason: str) -> Adaptation:
        """Block a requested adaptation that cannot start yet, with the reason; one that runs or has ended is left alone."""
        with transaction(self._engine) as session:
            row, model = adaptation_row(session, adaptation_id, lock=True)
            if row.state == AdaptationState.REQUESTED.value:
                row.state, row.reason, row.finished_at = AdaptationState.BLOCKED.value, reason, self._clock.now()
            return adaptation_of(row, model)

    def resume(self, platform: str, reason: str) -> Sequence[Adaptation]:
        """Request again every adaptation of the platform that is blocked for exactly this reason."""
        with transaction(self._engine) as session:
            query = adaptations_query().where(
                AdaptationRow.platform == platform,
                AdaptationRow.state == AdaptationState.BLOCKED.value,
                AdaptationRow.reason == reason,
            )
            found = session.execute(query.with_for_update(of=AdaptationRow, skip_locked=True)).all()
            for row, _ in found:
                row.state, row.reason, row.finished_at = AdaptationState.REQUESTED.value, None, None
            return [adaptation_of(row, model) for row, model in found]

    def cancel(self, adaptation_id: str) -> Adaptation:
        """Cancel: whoever holds it can write nothing more; what has ended stays as it ended. NotFoundError."""
        with transaction(self._engine) as session:
            row, model = adaptation_row(session, adaptation_id, lock=True)
            if row.state not in _ENDED or row.state == AdaptationState.BLOCKED.value:
                row.state, row.claimant = AdaptationState.CANCELLED.value, None
                row.reason, row.finished_at = "cancelled by the operator", self._clock.now()
                end_reruns(session, row.id, self._clock.now())
            return adaptation_of(row, model)

    def retry(self, adaptation_id: str) -> Adaptation:
        """Request a finished, blocked, failed or cancelled adaptation again, with all attempts granted anew.

        One that is requested already stays so. BadInputError while it is running; NotFoundError.
        """
        with transaction(self._engine) as session:
            row, model = adaptation_row(session, adaptation_id, lock=True)
            _refuse_running(row)
            _request_again(row)
            return adaptation_of(row, model)

    def follow(self, adaptation_id: str, policy: PrecisionPolicy | None) -> Adaptation:
        """Let the targets compute by a precision policy from the next attempt on; see the port.

        What was found under another policy says nothing about this one: an attempt that ends early would be judged by it.
        """
        with transaction(self._engine) as session:
            row, model = adaptation_row(session, adaptation_id, lock=True)
            if adaptation_of(row, model).policy == policy:
                return adaptation_of(row, model)
            _refuse_running(row)
            for found in (CheckRow, MeasurementRow, ResultLinkRow):
                session.execute(delete(found).where(found.adaptation_id == adaptation_id))
            row.policy = None if policy is None else plain(policy)
            _request_again(row)
            return adaptation_of(row, model)

    def log_lines(self, adaptation_id: str, after: int = 0) -> Sequence[tuple[int, datetime, str]]:
        """The adaptation's log: (number, time, line), those after a number. NotFoundError."""
        query = select(LogRow).where(LogRow.adaptation_id == adaptation_id, LogRow.number > after).order_by(LogRow.number)
        with transaction(self._engine) as session:
            adaptation_row(session, adaptation_id)
            return tuple((row.number, utc(row.at), row.line) for row in session.execute(query).scalars())

    def clock_of(self, adaptation_id: str) -> DayZeroClock:
        """The day-0 clock of the adaptation's model and platform, as far as it has run. NotFoundError."""
        with transaction(self._engine) as session:
            row, _ = adaptation_row(session, adaptation_id)
            return clock_of(session, row)

    def waivers(self) -> Sequence[Waiver]:
        """Every waiver, the oldest first."""
        with transaction(self._engine) as session:
            return waivers.all_waivers(session)

    def waive(self, model: str, platform: str, check: str, reason: str, owner: str, until: datetime) -> Waiver:
        """A new waiver. BadInputError: it has expired already, or says nothing of who and why."""
        asked = waivers.AskedWaiver(model, platform, check, reason, owner, until)
        with transaction(self._engine) as session:
            return waivers.add_waiver(session, asked, self._clock.now())

    def end_waiver(self, waiver_id: str) -> Waiver:
        """End a waiver now. NotFoundError."""
        with transaction(self._engine) as session:
            return waivers.end_waiver(session, waiver_id, self._clock.now())

    def model_names(self, model: str) -> Sequence[str]:
        """A model's name and its aliases, asked for by any of them. NotFoundError."""
        with transaction(self._engine) as session:
            known = named(session, model)
            if known is None:
                raise NotFoundError(f"no model {model} is known.", remedy="See `dayzero compat ls` for those that are.")
            query = select(ModelAliasRow.alias).where(ModelAliasRow.model_id == known.id).order_by(ModelAliasRow.alias)
            return (known.name, *session.execute(query).scalars())


def _next_start(row: AdaptationRow, model: str) -> Adaptation:
    """The adaptation with the attempt that its next start must carry."""
    return replace(adaptation_of(row, model), attempt=row.attempt + 1)


def _refuse_running(row: AdaptationRow) -> None:
    if row.state == AdaptationState.RUNNING.value:
        raise BadInputError(
            f"adaptation {row.id} is running (attempt {row.attempt}).",
            remedy=f"Wait for it, or `dayzero run cancel {row.id}` first.",
        )


def _request_again(row: AdaptationRow) -> None:
    """Request what has ended, with all attempts granted anew."""
    if row.state in _ENDED:
        row.state, row.claimant, row.stage = AdaptationState.REQUESTED.value, None, None
        row.reason, row.finished_at, row.attempts_before = None, None, row.attempt


def _write_end(session: Session, row: AdaptationRow, model: str, now: datetime, entry: dict[str, Field]) -> None:
    done = EventKind.PRESTAGE_COMPLETED if row.purpose == Purpose.PRESTAGE.value else EventKind.ADAPTATION_COMPLETED
    kind = done if row.state == AdaptationState.DONE.value else EventKind.ADAPTATION_FAILED
    release = session.get_one(ReleaseRow, row.release_id)
    outcome: dict[str, Field] = {"state": row.state, "reason": row.reason or entry.get("reason")}
    fields = (release_fields(release), adaptation_fields(row), entry, outcome)
    write_event(session, kind, model, now, *fields, adaptation_id=row.id)
