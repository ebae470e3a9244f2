"""The front of throughput a device against speed for one user."""

from collections.abc import Callable, Iterable, Sequence

from dayzero.domain.platforms import PlatformProfile
from dayzero.stages.planning.best_first import BestFirst
from dayzero.stages.planning.groups import Group, Possible, is_bounded
from dayzero.stages.planning.ranking import Candidate, occupied_devices

WORTH = 1.01
"""A slower plan is listed when its throughput is larger by that factor; smaller gains lie inside every estimate's interval."""


def pareto_front(
    possible: Iterable[Possible],
    profile: PlatformProfile,
    fits: Callable[[Candidate], bool],
    nearer: Callable[[Possible], Iterable[Possible]],
) -> Sequence[Candidate]:
    """Those that fit and that no other beats in both output tokens/s a device and tokens/s for one user; fastest for the user
    first, each with at least `WORTH` of what the faster ones reach. Only what could lie on the front is asked for its times
    (`nearer`) and whether it fits."""
    front: list[Candidate] = []
    best = 0.0

    def share(one: Possible) -> float:
        assert one.served is not None
        occupied = one.occupied if isinstance(one, Group) else occupied_devices(one.degrees, profile)
        return one.served.tokens_per_s / occupied

    def key(one: Possible) -> tuple[float, ...]:
        assert one.served is not None
        return one.served.tpot_s, -share(one), one.world if isinstance(one, Group) else one.degrees.world

    def beating(one: Possible) -> Iterable[Possible]:
        return (found for found in nearer(one) if found.served is not None) if share(one) > WORTH * best else ()

    timed = (one for one in possible if one.served is not None)
    for candidate in BestFirst(timed, key, is_bounded, beating):
        assert isinstance(candidate, Candidate)
        if share(candidate) > WORTH * best and fits(candidate):
            front.append(candidate)
            best = share(candidate)
    return front
