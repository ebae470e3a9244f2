"""The memory of failures in PostgreSQL."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Engine, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from dayzero.adapters.store.connection import transaction
from dayzero.adapters.store.limits import short_name
from dayzero.adapters.store.rows import utc
from dayzero.adapters.store.tables import AdaptationRow
from dayzero.adapters.store.tables_failures import FailureHitRow, FailureRow
from dayzero.adapters.store.visibility import seen_by, sight_of
from dayzero.domain.access import OPERATOR, Sight, Viewer
from dayzero.domain.failures import FailureKind, KnownFailure, Symptom
from dayzero.errors import BadInputError, NotFoundError
from dayzero.ports.running import Clock
from dayzero.stages.failures.signature import signature

EDITABLE = ("cause", "workaround", "owner", "ticket")
MAX_SAID_CHARACTERS = 1000


class SqlFailureMemory:
    """ports.failures.FailureMemory on PostgreSQL."""

    def __init__(self, engine: Engine, clock: Clock, viewer: Viewer = OPERATOR) -> None:
        self._engine = engine
        self._clock = clock
        self._viewer = viewer

    def seen_by(self, viewer: Viewer) -> "SqlFailureMemory":
        """The same memory through another's eyes."""
        return SqlFailureMemory(self._engine, self._clock, viewer)

    def known(self, platform: str | None = None, *, operator: str | None = None) -> Sequence[KnownFailure]:
        """Failures with the models that this viewer sees, those that hit the most models first."""
        with transaction(self._engine) as session:
            sight = sight_of(session, self._viewer, self._clock.now())
            return known_failures(session, sight, platform, operator)

    def explain(self, signature: str, words: Mapping[str, str | None]) -> KnownFailure:
        """Set what people say of it. NotFoundError, BadInputError."""
        unknown = sorted(set(words) - set(EDITABLE))
        if unknown or not words:
            raise BadInputError(
                f"a failure has no {unknown[0] if unknown else 'change'}.", remedy=f"Say {', '.join(EDITABLE)}."
            )
        with transaction(self._engine) as session:
            row = session.get(FailureRow, signature, with_for_update=True)
            sight = sight_of(session, self._viewer, self._clock.now())
            if row is None or not _nouns(session, sight, [row]):
                raise NotFoundError(f"there is no failure {signature[:80]}.", remedy="See `dayzero failures ls`.")
            for name, said in words.items():
                setattr(
                    row, name, None if said is None or not said.strip() else short_name(said.strip(), f"a failure's {name}")
                )
            session.flush()
            return _nouns(session, sight, [row])[0]


def known_failures(
    session: Session, sight: Sight, platform: str | None = None, operator: str | None = None
) -> tuple[KnownFailure, ...]:
    """Failures that a model in sight has met, those that hit the most models first."""
    query = select(FailureRow)
    if platform is not None:
        query = query.where(FailureRow.platform == platform)
    if operator is not None:
        query = query.where(FailureRow.operator == operator)
    found = _nouns(session, sight, session.execute(query).scalars().all())
    return tuple(sorted(found, key=lambda one: (-len(one.models), -len(one.former), one.signature)))


def _nouns(session: Session, sight: Sight, rows: Sequence[FailureRow]) -> list[KnownFailure]:
    # Columns, not entities: a failure that many share has a hit for each of their adaptations.
    columns = (FailureHitRow.signature, FailureHitRow.model, FailureHitRow.stack_fingerprint, FailureHitRow.said)
    hits = select(*columns, FailureHitRow.gone_at).where(
        FailureHitRow.signature.in_([row.signature for row in rows]),
        seen_by(sight, FailureHitRow.model, FailureHitRow.platform),
    )
    by_signature: dict[str, list[Any]] = {}
    for hit in session.execute(hits.order_by(FailureHitRow.seen_at, FailureHitRow.model)):
        by_signature.setdefault(hit.signature, []).append(hit)
    return [_noun(row, by_signature[row.signature]) for row in rows if row.signature in by_signature]


def remember(session: Session, adaptation: AdaptationRow, model: str, symptoms: Sequence[Symptom], now: datetime) -> None:
    """Note what an attempt met, and that what an earlier one met and this one did not is gone."""
    met = {signature(symptom, (model,)): symptom for symptom in symptoms}
    gone = update(FailureHitRow).where(
        FailureHitRow.adaptation_id == adaptation.id,
        FailureHitRow.signature.not_in(list(met)),
        FailureHitRow.gone_at.is_(None),
    )
    session.execute(gone.values(gone_at=now))
    for name in sorted(met):
        _note(session, name, met[name], adaptation, model, now)


def _note(session: Session, name: str, symptom: Symptom, adaptation: AdaptationRow, model: str, now: datetime) -> None:
    said = symptom.said[:MAX_SAID_CHARACTERS] or symptom.kind.value
    statement = insert(FailureRow).values(
        signature=name, kind=symptom.kind.value, check_name=symptom.check, operator=symptom.operator,
        dtypes=list(symptom.dtypes), shape_class=symptom.shape_class, platform=symptom.platform, symptom=said,
        first_seen_at=now, last_seen_at=now,
    )  # fmt: skip
    session.execute(statement.on_conflict_do_update(index_elements=["signature"], set_={"last_seen_at": now}))
    values = {
        "model": model, "platform": symptom.platform, "stack_fingerprint": symptom.stack_fingerprint, "said": said,
        "seen_at": now, "gone_at": None,
    }  # fmt: skip
    hit = insert(FailureHitRow).values(signature=name, adaptation_id=adaptation.id, **values)
    session.execute(hit.on_conflict_do_update(index_elements=["signature", "adaptation_id"], set_=values))


def _noun(row: FailureRow, hits: Sequence[Any]) -> KnownFailure:
    now = list(dict.fromkeys(hit.model for hit in hits if hit.gone_at is None))
    return KnownFailure(
        signature=row.signature,
        kind=FailureKind(row.kind),
        check=row.check_name,
        operator=row.operator,
        dtypes=tuple(row.dtypes),
        shape_class=row.shape_class,
        platform=row.platform,
        symptom=hits[0].said,
        cause=row.cause,
        workaround=row.workaround,
        owner=row.owner,
        ticket=row.ticket,
        models=tuple(now),
        former=tuple(dict.fromkeys(hit.model for hit in hits if hit.model not in now)),
        stacks=tuple(dict.fromkeys(hit.stack_fingerprint for hit in hits if hit.gone_at is None)),
        first_seen_at=utc(row.first_seen_at),
        last_seen_at=utc(row.last_seen_at),
    )
