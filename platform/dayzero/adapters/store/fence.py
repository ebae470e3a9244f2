"""Fencing: only the attempt that holds an adaptation may write."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from dayzero.adapters.store.holding import holds, stale
from dayzero.adapters.store.tables import AdaptationRow
from dayzero.domain.adaptation import Lease
from dayzero.errors import NotFoundError


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
