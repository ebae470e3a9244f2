"""Growing old, on a plane."""

from dayzero.app.planes import Plane
from dayzero.app.work import is_served
from dayzero.steps import ageing


def age_once(plane: Plane) -> tuple[ageing.Marked, ...]:
    """Mark what no longer describes what is installed and in force."""
    return ageing.sweep(plane.ageing, plane.catalog, plane.profiles, plane.clock.now())


def rerun_once(plane: Plane) -> tuple[str, ...]:
    """Start what comes first in the queue, where its platform has room."""
    return ageing.let_go(plane.ageing, lambda platform: is_served(plane, platform), plane.settings.reruns_at_once)


def rerun_queue(plane: Plane, platform: str | None = None) -> tuple[ageing.Queued, ...]:
    """What waits to be run again, in its order."""
    return ageing.queue(plane.ageing, platform)
