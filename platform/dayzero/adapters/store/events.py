"""Writing events to the outbox, inside the transaction that changes the truth."""

from collections.abc import Mapping
from datetime import datetime
from uuid import uuid4

from sqlalchemy.orm import Session

from dayzero.adapters.store.tables import AdaptationRow, ReleaseRow
from dayzero.adapters.store.tables_telling import EntryRow, EventRow
from dayzero.domain.events import EventKind

Field = str | int | float | None


def release_fields(release: ReleaseRow) -> dict[str, Field]:
    """What filters see of a release."""
    return {
        "release_id": release.id,
        "hub": release.hub,
        "repo_id": release.repo_id,
        "revision": release.revision,
        "stage": release.stage,
        "content_id": release.content_id,
    }


def adaptation_fields(adaptation: AdaptationRow) -> dict[str, Field]:
    """What filters see of an adaptation."""
    return {
        "adaptation_id": adaptation.id,
        "purpose": adaptation.purpose,
        "platform": adaptation.platform,
        "mode": adaptation.mode,
        "attempt": adaptation.attempt,
        "reason": adaptation.reason,
    }


def entry_fields(entry: EntryRow) -> dict[str, Field]:
    """What filters see of an entry."""
    fields: dict[str, Field] = {"entry_id": entry.id, "known_gaps": entry.known_gaps, "bundle": entry.bundle}
    for name in (
        "lifecycle", "correctness", "performance", "freshness", "grade", "reason", "engine", "dtype", "plan", "devices",
        "stack_fingerprint", "method", "checks_passed", "checks_failed", "checks_error", "checks_not_run",
    ):  # fmt: skip
        fields[name] = getattr(entry, name)
    return fields


def write_event(
    session: Session,
    kind: EventKind,
    model: str,
    now: datetime,
    *fields: Mapping[str, Field],
    adaptation_id: str | None = None,
) -> None:
    """Put an event into the outbox; later fields win over earlier ones of the same name."""
    merged: dict[str, Field] = {"event": kind.value, "model": model}
    for more in fields:
        merged.update(more)
    session.add(
        EventRow(id=str(uuid4()), kind=kind.value, subject=model, occurred_at=now, fields=merged, adaptation_id=adaptation_id)
    )
