"""Who holds an adaptation, the same in every ledger."""

from dayzero.domain.adaptation import AdaptationState, Lease
from dayzero.errors import StaleAttemptError


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
