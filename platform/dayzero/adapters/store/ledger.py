"""The ledger in PostgreSQL: what pipeline steps read and write on the control plane."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from sqlalchemy import Engine, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from dayzero.adapters.store.connection import transaction
from dayzero.adapters.store.events import adaptation_fields, release_fields, write_event
from dayzero.adapters.store.fence import fenced
from dayzero.adapters.store.holding import holds, stale
from dayzero.adapters.store.limits import check_order, document_of, log_line, short_name, within_limit
from dayzero.adapters.store.rows import adaptation_of, adaptation_row, noun_of, result_of
from dayzero.adapters.store.tables import (
    AdaptationRow,
    ArtifactLinkRow,
    ArtifactRow,
    CheckRow,
    LogRow,
    MeasurementRow,
    PlatformRow,
    ReleaseRow,
    ResultLinkRow,
    ResultRow,
    StackRow,
)
from dayzero.codec import load
from dayzero.domain.adaptation import Adaptation, AdaptationState, Lease
from dayzero.domain.canonical import digest, plain
from dayzero.domain.events import EventKind
from dayzero.domain.operators import OperatorManifest
from dayzero.domain.platforms import Stack
from dayzero.domain.release import Release
from dayzero.domain.results import ResultKey, StoredResult
from dayzero.domain.sampling import CallFact
from dayzero.domain.verdict import Check, Measurement
from dayzero.errors import NotFoundError
from dayzero.ports.hub import ArtifactStore
from dayzero.ports.running import Clock
from dayzero.stages.coverage.manifests import in_force
from dayzero.stages.platforms.sampled import carried, with_samples


class SqlLedger:
    """ports.ledger.Ledger on PostgreSQL; files go to the artifact store. Every method is one transaction.

    Any method raises UnavailableError when the database is lost; all may be called again then.
    """

    def __init__(self, engine: Engine, clock: Clock, artifacts: ArtifactStore) -> None:
        self._engine = engine
        self._clock = clock
        self._artifacts = artifacts

    def release(self, release_id: str) -> Release:
        """A release by its id; NotFoundError."""
        with transaction(self._engine) as session:
            row = session.get(ReleaseRow, release_id)
        if row is None:
            raise NotFoundError(f"there is no release {release_id}.")
        return load(Release, row.document)

    def adaptation(self, adaptation_id: str) -> Adaptation:
        """An adaptation by its id; NotFoundError."""
        with transaction(self._engine) as session:
            return adaptation_of(*adaptation_row(session, adaptation_id))

    def claim(self, adaptation_id: str, attempt: int, claimant: str) -> Lease:
        """Take the adaptation for this attempt; the first claim of an attempt writes dayzero.adaptation.started."""
        lease = Lease(adaptation_id, attempt, short_name(claimant, "a claimant's name"))
        now = self._clock.now()
        with transaction(self._engine) as session:
            row, model = adaptation_row(session, adaptation_id, lock=True)
            if holds(lease, row.state, row.attempt, row.claimant):
                return lease
            if row.state != AdaptationState.REQUESTED.value or attempt != row.attempt + 1:
                raise stale(lease, row.state, row.attempt, row.claimant)
            row.state, row.attempt, row.claimant = AdaptationState.RUNNING.value, attempt, claimant
            row.heartbeat_at, row.reason, row.finished_at = now, None, None
            release = session.get_one(ReleaseRow, row.release_id)
            fields = (release_fields(release), adaptation_fields(row))
            write_event(session, EventKind.ADAPTATION_STARTED, model, now, *fields, adaptation_id=row.id)
        return lease

    def heartbeat(self, lease: Lease, stage: str | None) -> None:
        """Say that the attempt lives; a stage of None leaves the stage as it is."""
        with transaction(self._engine) as session:
            row = fenced(session, lease, alone=True)
            row.heartbeat_at = self._clock.now()
            if stage is not None:
                row.stage = short_name(stage, "a stage's name")

    def find_result(self, key: ResultKey) -> StoredResult | None:
        """The result of that key, or None."""
        with transaction(self._engine) as session:
            row = _result_row(session, key)
            return None if row is None else result_of(row)

    def put_result(self, key: ResultKey, document: bytes, lease: Lease) -> StoredResult:
        """Store the result once and link it; what was stored by another adaptation is linked as re-used."""
        within_limit(document, f"the result of stage {key.stage}")
        now = self._clock.now()
        with transaction(self._engine) as session:
            adaptation = fenced(session, lease)
            made = session.execute(
                insert(ResultRow)
                .values(
                    id=str(uuid4()), stage=short_name(key.stage, "a stage's name"), stage_version=key.stage_version,
                    inputs_digest=short_name(key.inputs_digest, "an inputs digest"), document=document, created_at=now,
                )
                .on_conflict_do_nothing()
                .returning(ResultRow.id)
            ).scalar_one_or_none()  # fmt: skip
            row = _result_row(session, key)
            assert row is not None, "a result that conflicts or was inserted can be read"
            return result_of(row, self._link(session, row.id, adaptation, reused=made is None))

    def link_result(self, result: StoredResult, lease: Lease) -> None:
        """Link a found result to the adaptation as re-used; a link that is there says so with the attempt. NotFoundError."""
        with transaction(self._engine) as session:
            adaptation = fenced(session, lease)
            if session.get(ResultRow, result.id) is None:
                raise NotFoundError(f"there is no result {result.id}.")
            self._link(session, result.id, adaptation, reused=True)

    def _link(self, session: Session, result_id: str, adaptation: AdaptationRow, *, reused: bool) -> ResultLinkRow:
        """Link, or move the link to the end where a later attempt uses the result again: the newest of a stage counts."""
        attempt, now = adaptation.attempt, self._clock.now()
        statement = insert(ResultLinkRow).values(
            result_id=result_id, adaptation_id=adaptation.id, release_id=adaptation.release_id, reused=reused,
            linked_at=now, first_attempt=attempt, last_attempt=attempt,
        )  # fmt: skip
        session.execute(
            statement.on_conflict_do_update(
                index_elements=["result_id", "adaptation_id"],
                set_={"last_attempt": attempt, "linked_at": now, "seq": text("DEFAULT")},
                where=ResultLinkRow.last_attempt.is_distinct_from(attempt),
            )
        )
        return session.get_one(ResultLinkRow, (result_id, adaptation.id))

    def linked_results(self, adaptation_id: str) -> Sequence[StoredResult]:
        """The results linked to an adaptation, the oldest link first."""
        query = (
            select(ResultRow, ResultLinkRow)
            .join(ResultLinkRow, ResultLinkRow.result_id == ResultRow.id)
            .where(ResultLinkRow.adaptation_id == adaptation_id)
            .order_by(ResultLinkRow.seq)
        )
        with transaction(self._engine) as session:
            return tuple(result_of(row, link) for row, link in session.execute(query))

    def put_check(self, check: Check, lease: Lease) -> None:
        """Record a check; the same (adaptation, layer, check, rung) again replaces the earlier one."""
        document_of(check, f"check {check.check}")
        key = {"adaptation_id": lease.adaptation_id, "layer": check.layer.value, "check": check.check, "rung": check.rung}
        values = {
            "verdict": check.verdict.value, "grade": check.grade.value, "reason": check.reason, "measured": check.measured,
            "tolerance": check.tolerance, "n": check.n, "document": plain(check), "attempt": lease.attempt,
            "recorded_at": self._clock.now(),
        }  # fmt: skip
        with transaction(self._engine) as session:
            fenced(session, lease)
            _replace(session, CheckRow, key, values)

    def put_measurement(self, measurement: Measurement, lease: Lease) -> None:
        """Record a measurement; the same (adaptation, name, conditions) again replaces it."""
        document_of(measurement, f"measurement {measurement.name}")
        key = {
            "adaptation_id": lease.adaptation_id, "name": measurement.name, "conditions_digest": digest(measurement.conditions),
        }  # fmt: skip
        values = {
            "value": measurement.value, "unit": measurement.unit, "samples": measurement.samples,
            "document": plain(measurement), "attempt": lease.attempt, "recorded_at": self._clock.now(),
        }  # fmt: skip
        with transaction(self._engine) as session:
            fenced(session, lease)
            _replace(session, MeasurementRow, key, values)

    def put_artifact(self, data: bytes, *, media_type: str, name: str, lease: Lease) -> str:
        """Store evidence, link it to the adaptation, return its sha256. A stale lease writes no file either."""
        within_limit(data, f"artifact {name[:80]}")
        short_name(name, "an artifact's name")
        short_name(media_type, "a media type")
        with transaction(self._engine) as session:
            fenced(session, lease)
        sha256 = self._artifacts.put(data, media_type=media_type, name=name)
        now = self._clock.now()
        with transaction(self._engine) as session:
            fenced(session, lease)
            session.execute(
                insert(ArtifactRow)
                .values(sha256=sha256, size_bytes=len(data), media_type=media_type, name=name, created_at=now)
                .on_conflict_do_nothing()
            )
            link = {"sha256": sha256, "adaptation_id": lease.adaptation_id, "name": name, "linked_at": now}
            session.execute(insert(ArtifactLinkRow).values(link).on_conflict_do_nothing())
        return sha256

    def artifact(self, sha256: str) -> bytes:
        """An artifact's bytes; NotFoundError, IntegrityError."""
        with self._artifacts.open(sha256) as file:
            return file.read()

    def put_manifest(self, manifest: OperatorManifest, stack: Stack) -> None:
        """Record what the platform's stack offers, under the stack's fingerprint."""
        now = self._clock.now()
        with transaction(self._engine) as session:
            ensure_platform(session, stack.platform, now)
            _one_after_the_other(session, stack.platform)
            manifest = carried(manifest, _manifest_of(session, stack))
            document = document_of(manifest, f"the manifest of {manifest.provider}")
            told = select(func.coalesce(func.max(StackRow.told_seq), 0)).where(StackRow.platform == stack.platform)
            values = {
                "platform": stack.platform, "components": plain(stack.components), "manifest": document,
                "manifest_digest": digest(manifest), "told_at": now, "told_seq": session.execute(told).scalar_one() + 1,
            }  # fmt: skip
            _replace(session, StackRow, {"fingerprint": stack.fingerprint}, values)

    def add_samples(self, stack: Stack, under: str, facts: Sequence[CallFact]) -> None:
        """Add what calls showed to the manifest of the stack, in the transaction that reads it."""
        with transaction(self._engine) as session:
            _one_after_the_other(session, stack.platform)
            before = _manifest_of(session, stack)
            if before is None:
                return
            manifest = with_samples(before, facts, under)
            values = {
                "manifest": document_of(manifest, f"the manifest of {manifest.provider}"), "manifest_digest": digest(manifest),
            }  # fmt: skip
            session.execute(update(StackRow).where(StackRow.fingerprint == stack.fingerprint).values(values))

    def manifest(self, platform: str) -> tuple[OperatorManifest, Stack] | None:
        """The manifest of the platform that a worker told last, with its stack; else what was imported; None: nothing yet."""
        told = select(StackRow.fingerprint, StackRow.components).where(StackRow.platform == platform)
        with transaction(self._engine) as session:
            stacks = [
                (fingerprint, Stack(platform, components))
                for fingerprint, components in session.execute(told.order_by(StackRow.told_seq.desc()))
            ]
            documents = [
                (session.execute(select(StackRow.manifest).where(StackRow.fingerprint == name)).scalar_one(), stack)
                for name, stack in _that_count(stacks)
            ]
        return in_force([(load(OperatorManifest, document), stack) for document, stack in documents])

    def checks(self, adaptation_id: str) -> Sequence[Check]:
        """The checks recorded for an adaptation, in order of layer, check, rung."""
        with transaction(self._engine) as session:
            rows = session.execute(select(CheckRow.document).where(CheckRow.adaptation_id == adaptation_id)).scalars().all()
        return tuple(sorted((noun_of(Check, row) for row in rows), key=check_order))

    def measurements(self, adaptation_id: str) -> Sequence[Measurement]:
        """The measurements recorded for an adaptation, by name and conditions."""
        query = (
            select(MeasurementRow.document)
            .where(MeasurementRow.adaptation_id == adaptation_id)
            .order_by(MeasurementRow.name, MeasurementRow.conditions_digest)
        )
        with transaction(self._engine) as session:
            return tuple(noun_of(Measurement, row) for row in session.execute(query).scalars())

    def log(self, lease: Lease, message: str) -> None:
        """Append a line to the adaptation's log."""
        with transaction(self._engine) as session:
            fenced(session, lease, alone=True)  # so that numbers appear in their order
            line = LogRow(
                adaptation_id=lease.adaptation_id, attempt=lease.attempt, at=self._clock.now(), line=log_line(message)
            )
            session.add(line)


def ensure_platform(session: Session, slug: str, now: Any) -> None:
    """Know the platform."""
    slug = short_name(slug, "a platform's slug")
    session.execute(insert(PlatformRow).values(slug=slug, created_at=now).on_conflict_do_nothing())


def _result_row(session: Session, key: ResultKey) -> ResultRow | None:
    query = select(ResultRow).where(
        ResultRow.stage == key.stage,
        ResultRow.stage_version == key.stage_version,
        ResultRow.inputs_digest == key.inputs_digest,
    )
    return session.execute(query).scalar_one_or_none()


def _one_after_the_other(session: Session, platform: str) -> None:
    """Wait until nobody else writes a manifest of the platform."""
    session.execute(select(PlatformRow).where(PlatformRow.slug == platform).with_for_update())


def _manifest_of(session: Session, stack: Stack) -> OperatorManifest | None:
    document = session.execute(select(StackRow.manifest).where(StackRow.fingerprint == stack.fingerprint)).scalar_one_or_none()
    return None if document is None else load(OperatorManifest, document)


def _that_count(stacks: Sequence[tuple[str, Stack]]) -> list[tuple[str, Stack]]:
    """Of a platform's stacks, the newest first, those whose manifests are needed to say which is in force."""
    own = [pair for pair in stacks if pair[1].published is None]
    if own:
        return own[:1]
    return list({stack.published: (name, stack) for name, stack in reversed(stacks)}.values())[::-1]


def _replace(session: Session, table: Any, key: dict[str, Any], values: dict[str, Any]) -> None:
    """Insert, or replace the row of that primary key."""
    statement = insert(table).values({**key, **values})
    session.execute(statement.on_conflict_do_update(index_elements=list(key), set_=values))
