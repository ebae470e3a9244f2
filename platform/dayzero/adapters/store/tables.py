"""Tables of models, releases, platforms, work and results. Entries and telling have modules of their own."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Computed,
    ForeignKey,
    Identity,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    UniqueConstraint,
)
from sqlalchemy.dialects.postgresql import TSVECTOR
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from dayzero.adapters.store.column_types import CleanJson, CleanText, Moment
from dayzero.domain.canonical import Json

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """Base of every table; constraint names are the same in models and migrations."""

    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {str: CleanText, datetime: Moment, bytes: LargeBinary, int: BigInteger, Json: CleanJson}  # noqa: RUF012


def _words(column: str) -> Computed:
    """The words of a name, written as PostgreSQL prints the expression."""
    return Computed(f"to_tsvector('simple'::regconfig, translate({column}, '/-_.:@'::text, '      '::text))", persisted=True)


class ModelRow(Base):
    """A model, by the name it first had."""

    __tablename__ = "models"
    __table_args__ = (Index(None, "words", postgresql_using="gin"),)
    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[datetime]
    words: Mapped[str] = mapped_column(TSVECTOR, _words("name"), nullable=True, deferred=True)


class ModelAliasRow(Base):
    """Another name of a model (renamed, or on another hub)."""

    __tablename__ = "model_aliases"
    __table_args__ = (Index(None, "words", postgresql_using="gin"),)
    alias: Mapped[str] = mapped_column(primary_key=True)
    model_id: Mapped[str] = mapped_column(ForeignKey("models.id"), index=True)
    created_at: Mapped[datetime]
    words: Mapped[str] = mapped_column(TSVECTOR, _words("alias"), nullable=True, deferred=True)


class SourceRow(Base):
    """A watched source with its rule."""

    __tablename__ = "sources"
    __table_args__ = (UniqueConstraint("hub", "location", "rule_digest"),)
    id: Mapped[str] = mapped_column(primary_key=True)
    seq: Mapped[int] = mapped_column(Identity(always=True))
    hub: Mapped[str]
    location: Mapped[str]
    rule: Mapped[Any] = mapped_column(CleanJson)
    rule_digest: Mapped[str]
    since: Mapped[datetime | None]
    enabled: Mapped[bool]
    created_at: Mapped[datetime]
    last_polled_at: Mapped[datetime | None]
    last_error: Mapped[str | None]


class ReleaseRow(Base):
    """A release: `endpoint` is empty for the settings' hub; `seq` is the order of recording."""

    __tablename__ = "releases"
    __table_args__ = (UniqueConstraint("hub", "endpoint", "repo_id", "revision"), Index(None, "seq"))
    id: Mapped[str] = mapped_column(primary_key=True)
    seq: Mapped[int] = mapped_column(Identity(always=True))
    model_id: Mapped[str] = mapped_column(ForeignKey("models.id"), index=True)
    hub: Mapped[str]
    endpoint: Mapped[str]
    repo_id: Mapped[str]
    revision: Mapped[str]
    stage: Mapped[str]
    content_id: Mapped[str] = mapped_column(index=True)
    configuration_digest: Mapped[str]
    document: Mapped[bytes]
    published_at: Mapped[datetime | None]
    recorded_at: Mapped[datetime]
    announced_at: Mapped[datetime | None]
    config_seen_at: Mapped[datetime | None]
    weights_seen_at: Mapped[datetime | None]


class PlatformRow(Base):
    """A platform that somebody asked about or worked for."""

    __tablename__ = "platforms"
    slug: Mapped[str] = mapped_column(primary_key=True)
    created_at: Mapped[datetime]


class StackRow(Base):
    """A stack by its fingerprint, with the newest manifest that was told of it."""

    __tablename__ = "stacks"
    fingerprint: Mapped[str] = mapped_column(primary_key=True)
    platform: Mapped[str] = mapped_column(ForeignKey("platforms.slug"), index=True)
    components: Mapped[Any] = mapped_column(CleanJson)
    manifest: Mapped[bytes]
    manifest_digest: Mapped[str]
    told_at: Mapped[datetime]
    told_seq: Mapped[int]


class AdaptationRow(Base):
    """A row of work; `attempts_before` are the attempts that an operator's retry has forgiven."""

    __tablename__ = "adaptations"
    __table_args__ = (
        UniqueConstraint("purpose", "content_id", "platform", "mode"),
        Index(None, "state", "heartbeat_at"),
        Index(None, "seq"),
    )
    id: Mapped[str] = mapped_column(primary_key=True)
    seq: Mapped[int] = mapped_column(Identity(always=True))
    purpose: Mapped[str]
    release_id: Mapped[str] = mapped_column(ForeignKey("releases.id"), index=True)
    model_id: Mapped[str] = mapped_column(ForeignKey("models.id"), index=True)
    content_id: Mapped[str]
    platform: Mapped[str] = mapped_column(ForeignKey("platforms.slug"))
    mode: Mapped[str]
    state: Mapped[str]
    attempt: Mapped[int]
    attempts_before: Mapped[int]
    requested_at: Mapped[datetime]
    claimant: Mapped[str | None]
    heartbeat_at: Mapped[datetime | None]
    stage: Mapped[str | None]
    reason: Mapped[str | None]
    finished_at: Mapped[datetime | None]
    policy: Mapped[Any | None] = mapped_column(CleanJson(none_as_null=True))


class ResultRow(Base):
    """A result by what it was computed from. The document stays as it came, byte for byte."""

    __tablename__ = "results"
    __table_args__ = (UniqueConstraint("stage", "stage_version", "inputs_digest"),)
    id: Mapped[str] = mapped_column(primary_key=True)
    stage: Mapped[str]
    stage_version: Mapped[int]
    inputs_digest: Mapped[str]
    document: Mapped[bytes]
    created_at: Mapped[datetime]


class ResultLinkRow(Base):
    """Which adaptation used which result, and whether it found it or computed it (then in `first_attempt`)."""

    __tablename__ = "result_links"
    __table_args__ = (PrimaryKeyConstraint("result_id", "adaptation_id"),)
    result_id: Mapped[str] = mapped_column(ForeignKey("results.id"))
    adaptation_id: Mapped[str] = mapped_column(ForeignKey("adaptations.id"), index=True)
    seq: Mapped[int] = mapped_column(Identity(always=True))
    release_id: Mapped[str] = mapped_column(ForeignKey("releases.id"), index=True)
    reused: Mapped[bool]
    linked_at: Mapped[datetime]
    first_attempt: Mapped[int | None]
    last_attempt: Mapped[int | None]


class CheckRow(Base):
    """A check, the newest of its (adaptation, layer, check, rung)."""

    __tablename__ = "checks"
    __table_args__ = (PrimaryKeyConstraint("adaptation_id", "layer", "check", "rung"),)
    adaptation_id: Mapped[str] = mapped_column(ForeignKey("adaptations.id"))
    layer: Mapped[str]
    check: Mapped[str]
    rung: Mapped[str]
    verdict: Mapped[str] = mapped_column(index=True)
    grade: Mapped[str]
    reason: Mapped[str]
    measured: Mapped[float | None]
    tolerance: Mapped[float | None]
    n: Mapped[int | None]
    document: Mapped[Any] = mapped_column(CleanJson)
    attempt: Mapped[int]
    recorded_at: Mapped[datetime]


class MeasurementRow(Base):
    """A measurement, the newest of its (adaptation, name, conditions)."""

    __tablename__ = "measurements"
    __table_args__ = (PrimaryKeyConstraint("adaptation_id", "name", "conditions_digest"),)
    adaptation_id: Mapped[str] = mapped_column(ForeignKey("adaptations.id"))
    name: Mapped[str]
    conditions_digest: Mapped[str]
    value: Mapped[float]
    unit: Mapped[str]
    samples: Mapped[int]
    document: Mapped[Any] = mapped_column(CleanJson)
    attempt: Mapped[int]
    recorded_at: Mapped[datetime]


class ArtifactRow(Base):
    """A content-addressed file."""

    __tablename__ = "artifacts"
    sha256: Mapped[str] = mapped_column(primary_key=True)
    size_bytes: Mapped[int]
    media_type: Mapped[str]
    name: Mapped[str]
    created_at: Mapped[datetime]


class ArtifactLinkRow(Base):
    """Which adaptation brought which artifact, under which name."""

    __tablename__ = "artifact_links"
    __table_args__ = (PrimaryKeyConstraint("sha256", "adaptation_id", "name"),)
    sha256: Mapped[str] = mapped_column(ForeignKey("artifacts.sha256"))
    adaptation_id: Mapped[str] = mapped_column(ForeignKey("adaptations.id"), index=True)
    name: Mapped[str]
    linked_at: Mapped[datetime]


class LogRow(Base):
    """A line of an adaptation's log; numbers rise in the order in which lines of one adaptation appear."""

    __tablename__ = "adaptation_log"
    __table_args__ = (Index(None, "adaptation_id", "number"),)
    number: Mapped[int] = mapped_column(Identity(always=True), primary_key=True)
    adaptation_id: Mapped[str] = mapped_column(ForeignKey("adaptations.id"))
    attempt: Mapped[int]
    at: Mapped[datetime]
    line: Mapped[str]
