"""Fencing: only the attempt that holds an adaptation may write."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from dayzero.adapters.store.tables import AdaptationRow
from dayzero.domain.adaptation import AdaptationState, Lease
from dayzero.errors import NotFoundError, StaleAttemptError


def stale(lease: Lease, state: str, attempt: int, claimant: str | None) -> StaleAttemptError:
    """The error that says who holds the adaptation instead."""
    holder = f"attempt {attempt} of {claimant} holds it" if claimant else f"it is {state} after attempt {attempt}"
    return StaleAttemptError(
        f"attempt {lease.attempt} of {lease.claimant} may not write to adaptation {lease.adaptation_id}: {holder}.",
        remedy="Let this run end; a newer attempt, if there is one, goes on from what is stored.",
    )


def holds(lease: Lease, state: str, attempt: int, claimant: str | None) -> bool:
    """Whether the lease is the one that holds the adaptation now."""
    return (state, attempt, claimant) == (AdaptationState.RUNNING.value, lease.attempt, lease.claimant)


def fenced(session: Session, lease: Lease, *, alone: bool = False) -> AdaptationRow:
    """The lease's adaptation, locked so that nobody takes it away within this transaction.

    Several writers of one lease may hold the lock together, unless `alone`. StaleAttemptError, NotFoundError.
    """
    query = (
        select(AdaptationRow).where(AdaptationRow.id == lease.adaptation_id).with_for_update(read=not alone, key_share=alone)
    )
    row = session.execute(query).scalar_one_or_none()
    if row is None:
        raise NotFoundError(f"there is no adaptation {lease.adaptation_id}.")
    if not holds(lease, row.state, row.attempt, row.claimant):
        raise stale(lease, row.state, row.attempt, row.claimant)
    return row
