"""Shares of a device's memory that engines ask for."""

from dayzero.domain.plan import ParallelPlan
from dayzero.stages.memory.host import HOST

STATIC = ("weights", "redundant_experts", "state")
"""What an engine allocates once: all else comes and goes with a step."""


def memory_share(plan: ParallelPlan) -> float | None:
    """The share of its device's memory that the fullest rank needs; None where the limit is not known."""
    budget = plan.fullest
    return budget.total_bytes / budget.limit_bytes if budget.limit_bytes else None


def static_share(plan: ParallelPlan) -> float | None:
    """The share left for weights and cache once the fullest rank's steps have what they need; None without a limit."""
    budget = plan.fullest
    if not budget.limit_bytes:
        return None
    passing = sum(size for name, size in budget.items_bytes.items() if name not in STATIC and not name.startswith(HOST))
    return max(0.0, 1 - passing / budget.limit_bytes)


def reserve_known(plan: ParallelPlan) -> bool:
    """Whether the plan knows what the platform's runtime keeps for itself."""
    return plan.fullest.items_bytes.get("reserve", 0) > 0
