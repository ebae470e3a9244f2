"""Nouns from rows."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from dayzero.adapters.store.tables import AdaptationRow, ModelRow, ResultLinkRow, ResultRow, SourceRow
from dayzero.adapters.store.tables_telling import DeliveryRow, EventRow, SubscriptionRow
from dayzero.codec import load
from dayzero.domain.access import ANYONE, Viewer
from dayzero.domain.adaptation import GOING_ON, Adaptation, AdaptationState, Purpose
from dayzero.domain.events import Event, EventKind
from dayzero.domain.precision_policy import PrecisionPolicy
from dayzero.domain.release import HubKind
from dayzero.domain.results import ResultKey, StoredResult
from dayzero.domain.subscriptions import Channel, Delivery, DeliveryState, Manner, Quiet, Subscription
from dayzero.domain.verdict import Mode
from dayzero.domain.watching import Rule, WatchSource
from dayzero.errors import NotFoundError
from dayzero.ports.telling import Vault

Noun = TypeVar("Noun")

STATES_GOING_ON = tuple(state.value for state in GOING_ON)
"""As the column of states has them."""


def utc(moment: datetime) -> datetime:
    """The moment in UTC; one without a zone is taken as UTC."""
    if moment.tzinfo is UTC:
        return moment
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def maybe_utc(moment: datetime | None) -> datetime | None:
    """The moment in UTC, or None."""
    return None if moment is None else utc(moment)


def noun_of(noun: type[Noun], document: Any) -> Noun:
    """The noun from a JSONB document."""
    return load(noun, json.dumps(document))


def adaptations_query() -> Select[AdaptationRow, str]:
    """Adaptations with their models' names."""
    return select(AdaptationRow, ModelRow.name).join(ModelRow, ModelRow.id == AdaptationRow.model_id)


def adaptation_row(session: Session, adaptation_id: str, *, lock: bool = False) -> tuple[AdaptationRow, str]:
    """An adaptation's row and its model's name, locked for update if wanted; NotFoundError.

    The lock leaves the key alone (key_share), so that rows which only refer to the adaptation need not wait.
    """
    query = adaptations_query().where(AdaptationRow.id == adaptation_id)
    if lock:
        query = query.with_for_update(of=AdaptationRow, key_share=True)
    found = session.execute(query).one_or_none()
    if found is None:
        raise NotFoundError(f"there is no adaptation {adaptation_id}.", remedy="See `dayzero run ls`.")
    return found[0], found[1]


def adaptation_of(row: AdaptationRow, model: str) -> Adaptation:
    """The adaptation as it stands."""
    return Adaptation(
        id=row.id,
        purpose=Purpose(row.purpose),
        release_id=row.release_id,
        content_id=row.content_id,
        model=model,
        platform=row.platform,
        mode=Mode(row.mode),
        state=AdaptationState(row.state),
        attempt=row.attempt,
        requested_at=utc(row.requested_at),
        claimant=row.claimant,
        heartbeat_at=maybe_utc(row.heartbeat_at),
        stage=row.stage,
        reason=row.reason,
        finished_at=maybe_utc(row.finished_at),
        policy=None if row.policy is None else noun_of(PrecisionPolicy, row.policy),
    )


def result_of(row: ResultRow, link: ResultLinkRow | None = None) -> StoredResult:
    """The result; re-used if the link says so."""
    key = ResultKey(row.stage, row.stage_version, row.inputs_digest)
    stored = StoredResult(row.id, key, bytes(row.document), utc(row.created_at))
    if link is None:
        return stored
    return replace(stored, reused=link.reused, first_attempt=link.first_attempt, last_attempt=link.last_attempt)


def source_of(row: SourceRow) -> WatchSource:
    """The watched source."""
    return WatchSource(
        row.id, HubKind(row.hub), row.location, noun_of(Rule, row.rule), maybe_utc(row.since), row.enabled,
        maybe_utc(row.last_polled_at), row.last_error,
    )  # fmt: skip


def event_of(row: EventRow) -> Event:
    """The event."""
    return Event(row.id, EventKind(row.kind), row.subject, utc(row.occurred_at), dict(row.fields))


def subscription_of(row: SubscriptionRow, vault: Vault) -> Subscription:
    """The subscription, unlocked. DependencyError: the key is not there."""
    quiet = None if row.quiet is None else Quiet(**row.quiet)
    return Subscription(
        row.id, Channel(row.channel), vault.unlock(row.target), row.predicate,
        None if row.secret is None else vault.unlock(row.secret), utc(row.created_at), row.enabled,
        maybe_utc(row.confirmed_at), ANYONE if row.token_id is None else Viewer(row.token_id),
        Manner(row.digest_every_s, quiet),
    )  # fmt: skip


def delivery_of(row: DeliveryRow, absences: int = 0) -> Delivery:
    """The delivery; `absences` of its subscriber up to now, where they count."""
    return Delivery(
        row.id, row.event_id, row.subscription_id, DeliveryState(row.state), row.tries + max(absences - row.absences_before, 0),
        utc(row.next_try_at), maybe_utc(row.delivered_at), row.last_error,
    )  # fmt: skip
