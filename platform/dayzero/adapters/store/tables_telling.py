"""Tables of entries, events, subscribers, tokens and workers."""

from datetime import datetime
from typing import Any

from sqlalchemy import Boolean, ForeignKey, Identity, Index, PrimaryKeyConstraint, UniqueConstraint, false, text
from sqlalchemy.orm import Mapped, mapped_column

from dayzero.adapters.store.column_types import CleanJson
from dayzero.adapters.store.tables import Base


class EntryRow(Base):
    """A version of an entry. Append-only: a trigger forbids UPDATE, DELETE and TRUNCATE.

    `content_digest` is the entry's digest apart from its clock; `predicted` says that it hangs on a configuration alone.
    """

    __tablename__ = "entries"
    __table_args__ = (
        Index(None, "key_digest", "seq"),
        Index(None, "model_id", "platform", "mode"),
        Index(None, "model_id", "seq"),
    )
    id: Mapped[str] = mapped_column(primary_key=True)
    seq: Mapped[int] = mapped_column(Identity(always=True))
    key_digest: Mapped[str]
    content_digest: Mapped[str]
    predicted: Mapped[bool]
    model_id: Mapped[str] = mapped_column(ForeignKey("models.id"))
    release_id: Mapped[str] = mapped_column(ForeignKey("releases.id"))
    adaptation_id: Mapped[str] = mapped_column(ForeignKey("adaptations.id"), index=True)
    model: Mapped[str]
    content_id: Mapped[str]
    platform: Mapped[str]
    stack_fingerprint: Mapped[str]
    engine: Mapped[str]
    dtype: Mapped[str]
    plan: Mapped[str]
    devices: Mapped[int]
    mode: Mapped[str]
    method: Mapped[str]
    lifecycle: Mapped[str]
    correctness: Mapped[str]
    performance: Mapped[str]
    freshness: Mapped[str]
    grade: Mapped[str]
    reason: Mapped[str]
    checks_passed: Mapped[int]
    checks_failed: Mapped[int]
    checks_error: Mapped[int]
    checks_not_run: Mapped[int]
    known_gaps: Mapped[int]
    bundle: Mapped[str | None]
    announced_at: Mapped[datetime | None]
    config_seen_at: Mapped[datetime | None]
    weights_live_at: Mapped[datetime | None]
    detected_at: Mapped[datetime | None]
    staged_at: Mapped[datetime | None]
    first_token_at: Mapped[datetime | None]
    verified_at: Mapped[datetime | None]
    recorded_at: Mapped[datetime]
    document: Mapped[Any] = mapped_column(CleanJson)


class StandingRow(Base):
    """What stands of the list: the newest version of each key that shows. A trigger on entries keeps it; nobody else writes.

    `freshness` is as recorded; the views make it stale once a waiver has expired.
    """

    __tablename__ = "standing"
    __table_args__ = (
        Index("ix_standing_order", "model", "platform", "mode", "engine", "dtype", "plan", "key_digest"),
        Index(None, "platform", "model"),
        Index(None, "model_id", "platform", "mode"),
        Index(None, "adaptation_id"),
        Index(None, "recorded_at"),
    )
    key_digest: Mapped[str] = mapped_column(primary_key=True)
    seq: Mapped[int]
    model_id: Mapped[str]
    predicted: Mapped[bool]
    entry_id: Mapped[str]
    model: Mapped[str]
    platform: Mapped[str]
    mode: Mapped[str]
    lifecycle: Mapped[str]
    correctness: Mapped[str]
    performance: Mapped[str]
    freshness: Mapped[str]
    grade: Mapped[str]
    reason: Mapped[str]
    engine: Mapped[str]
    dtype: Mapped[str]
    plan: Mapped[str]
    devices: Mapped[int]
    stack_fingerprint: Mapped[str]
    method: Mapped[str]
    checks_passed: Mapped[int]
    checks_failed: Mapped[int]
    checks_error: Mapped[int]
    checks_not_run: Mapped[int]
    known_gaps: Mapped[int]
    hub: Mapped[str]
    repo_id: Mapped[str]
    revision: Mapped[str]
    content_id: Mapped[str]
    release_id: Mapped[str]
    adaptation_id: Mapped[str]
    bundle: Mapped[str | None]
    announced_at: Mapped[datetime | None]
    config_seen_at: Mapped[datetime | None]
    weights_live_at: Mapped[datetime | None]
    detected_at: Mapped[datetime | None]
    staged_at: Mapped[datetime | None]
    first_token_at: Mapped[datetime | None]
    verified_at: Mapped[datetime | None]
    time_to_verified_s: Mapped[float | None]
    recorded_at: Mapped[datetime]
    evidence: Mapped[str | None]
    waivers: Mapped[int]
    waived_until: Mapped[datetime | None]
    gaps: Mapped[Any] = mapped_column(CleanJson)


class CellRow(Base):
    """A model on a platform: the best of what stands, and counts. The trigger that keeps `standing` keeps this too.

    `next_expiry` is when the first waiver expires: from then on the row is out of date, and the view computes it anew.
    """

    __tablename__ = "cells"
    __table_args__ = (PrimaryKeyConstraint("model", "platform"), Index(None, "next_expiry"))
    model: Mapped[str]
    platform: Mapped[str]
    entry_id: Mapped[str]
    mode: Mapped[str]
    lifecycle: Mapped[str]
    correctness: Mapped[str]
    performance: Mapped[str]
    freshness: Mapped[str]
    best_recorded_at: Mapped[datetime]
    entries: Mapped[int]
    verified: Mapped[int]
    functional: Mapped[int]
    failing: Mapped[int]
    unknown: Mapped[int]
    stale: Mapped[int]
    recorded_at: Mapped[datetime]
    next_expiry: Mapped[datetime | None]


class SightingRow(Base):
    """What the watcher last thought of a repository that it did not take, and why."""

    __tablename__ = "sightings"
    __table_args__ = (PrimaryKeyConstraint("source_id", "repo_id"), Index(None, "seen_at"))
    source_id: Mapped[str] = mapped_column(ForeignKey("sources.id", ondelete="CASCADE"))
    repo_id: Mapped[str]
    reason: Mapped[str]
    failed: Mapped[bool]
    seen_at: Mapped[datetime]


class EventRow(Base):
    """An event on its way out; `hidden_until` is the lease of the dispatcher that is telling the orchestrator.

    `position` is its place among all events in the order in which they were seen, given when it is fanned out: transactions
    commit in another order than that of `seq`.
    """

    __tablename__ = "outbox"
    __table_args__ = (
        Index("ix_outbox_unemitted", "seq", postgresql_where=text("emitted_at IS NULL")),
        Index("ix_outbox_unfanned", "seq", postgresql_where=text("fanned_out_at IS NULL")),
        Index("ix_outbox_position", "position", unique=True),
    )
    id: Mapped[str] = mapped_column(primary_key=True)
    seq: Mapped[int] = mapped_column(Identity(always=True))
    kind: Mapped[str]
    subject: Mapped[str]
    occurred_at: Mapped[datetime]
    fields: Mapped[Any] = mapped_column(CleanJson)
    adaptation_id: Mapped[str | None] = mapped_column(ForeignKey("adaptations.id"), index=True)
    position: Mapped[int | None]
    hidden_until: Mapped[datetime | None]
    emitted_at: Mapped[datetime | None]
    fanned_out_at: Mapped[datetime | None]


class SubscriptionRow(Base):
    """A subscriber. Address and secret are locked. The lane is how it is served, by one dispatcher at a time.

    `absences` counts how often it could not be reached, `absences_in_row` those since it last could.
    """

    __tablename__ = "subscriptions"
    id: Mapped[str] = mapped_column(primary_key=True)
    seq: Mapped[int] = mapped_column(Identity(always=True))
    channel: Mapped[str]
    target: Mapped[str]
    predicate: Mapped[str]
    secret: Mapped[str | None]
    created_at: Mapped[datetime]
    enabled: Mapped[bool]
    confirmed_at: Mapped[datetime | None]
    token_id: Mapped[str | None] = mapped_column(ForeignKey("tokens.id"))
    digest_every_s: Mapped[int | None]
    quiet: Mapped[Any | None] = mapped_column(CleanJson)
    served_at: Mapped[datetime | None]
    digest_sent_at: Mapped[datetime | None]
    lane_holder: Mapped[str | None]
    lane_until: Mapped[datetime | None]
    rests_until: Mapped[datetime | None]
    absences: Mapped[int] = mapped_column(server_default=text("0"))
    absences_in_row: Mapped[int] = mapped_column(server_default=text("0"))
    last_error: Mapped[str | None]


class DeliveryRow(Base):
    """One event for one subscription, at most one row; `position` is the event's, `absences_before` its subscriber's then."""

    __tablename__ = "deliveries"
    __table_args__ = (
        UniqueConstraint("event_id", "subscription_id"),
        Index("ix_deliveries_due", "next_try_at", postgresql_where=text("state = 'pending'")),
        Index("ix_deliveries_lane", "subscription_id", "position", postgresql_where=text("state = 'pending'")),
        Index("ix_deliveries_subscription_state", "subscription_id", "state"),
        Index("ix_deliveries_subject", "subscription_id", "subject", "position", postgresql_where=text("state = 'pending'")),
    )
    id: Mapped[str] = mapped_column(primary_key=True)
    seq: Mapped[int] = mapped_column(Identity(always=True))
    event_id: Mapped[str] = mapped_column(ForeignKey("outbox.id"))
    subscription_id: Mapped[str] = mapped_column(ForeignKey("subscriptions.id", ondelete="CASCADE"))
    position: Mapped[int] = mapped_column(server_default=text("0"))
    subject: Mapped[str] = mapped_column(server_default="")
    state: Mapped[str]
    tries: Mapped[int]
    absences_before: Mapped[int] = mapped_column(server_default=text("0"))
    next_try_at: Mapped[datetime]
    digest_id: Mapped[str | None]
    delivered_at: Mapped[datetime | None]
    last_error: Mapped[str | None]


class TokenRow(Base):
    """A token, as its sha256; `platform` is a worker's."""

    __tablename__ = "tokens"
    id: Mapped[str] = mapped_column(primary_key=True)
    sha256: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str] = mapped_column(server_default="")
    platform: Mapped[str | None]
    scope: Mapped[str]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    revoked: Mapped[bool] = mapped_column(Boolean, server_default=false())


class WorkerRow(Base):
    """A worker and when it last said that it lives."""

    __tablename__ = "workers"
    __table_args__ = (PrimaryKeyConstraint("id", "platform"),)
    id: Mapped[str]
    platform: Mapped[str]
    stack_fingerprint: Mapped[str]
    devices: Mapped[int]
    first_seen_at: Mapped[datetime]
    seen_at: Mapped[datetime]


class WaiverRow(Base):
    """A waiver; rows stay when they expire or are ended."""

    __tablename__ = "waivers"
    id: Mapped[str] = mapped_column(primary_key=True)
    seq: Mapped[int] = mapped_column(Identity(always=True))
    model: Mapped[str]
    platform: Mapped[str]
    check_name: Mapped[str]
    reason: Mapped[str]
    owner: Mapped[str]
    until: Mapped[datetime]
    created_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
