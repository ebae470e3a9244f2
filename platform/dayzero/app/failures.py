"""The memory of failures, on a plane."""

from dayzero.app.planes import Plane, recorded_plane
from dayzero.domain.failures import Foretold, RankedGap
from dayzero.domain.operators import OperatorInventory
from dayzero.settings import Settings
from dayzero.stages.failures.foretelling import foretold, ranked_gaps


def gaps_on(plane: Plane, platform: str) -> tuple[RankedGap, ...]:
    """What the platform lacks, the most worthwhile to bridge first."""
    return ranked_gaps(plane.failures.known(platform))


def foretold_for(settings: Settings, platform: str, needed: OperatorInventory) -> tuple[Foretold, ...]:
    """Known failures that a model with these operators will meet on the platform; none where nothing was recorded."""
    with recorded_plane(settings) as plane:
        if plane is None:
            return ()
        told = plane.ledger.manifest(platform)
        return foretold(needed, plane.failures.known(platform), told[1].fingerprint if told else None)
