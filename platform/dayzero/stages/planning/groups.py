"""Plans that differ in their pipeline and data-parallel degrees alone, with times that bound them all: a search of a thousand
devices has tens of thousands of plans and a thousand groups, most of which never need a look at their members."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter

from dayzero.domain.planning import Choices, Degrees, Objective, Workload
from dayzero.domain.platforms import PlatformProfile
from dayzero.stages.cost.floors import ServingFloor
from dayzero.stages.cost.serving import Served
from dayzero.stages.planning.ranking import Candidate, occupied_devices, speed_of


@dataclass(frozen=True, slots=True)
class Group:
    """Members and what none of them is better than: times, throughput, devices that are occupied, devices."""

    members: tuple[Degrees, ...]
    choices: Choices
    served: Served
    occupied: int
    world: int


Asked = tuple[Degrees, Choices]
Possible = Candidate | Group


def is_bounded(one: Possible) -> bool:
    """Whether its times only bound those of a plan."""
    return isinstance(one, Group) or one.bounded


def size_of(one: Possible) -> int:
    """How many plans it is."""
    return len(one.members) if isinstance(one, Group) else 1


def plans_of(one: Possible) -> Iterator[Candidate]:
    """The plan, or a group's, bounded by what bounds all of them."""
    if not isinstance(one, Group):
        yield one
        return
    for degrees in one.members:
        yield Candidate(degrees, one.choices, one.served, bounded=True)


def grouped(
    asked: Iterable[Asked], floor: ServingFloor, profile: PlatformProfile, workload: Workload
) -> tuple[list[Group], list[Asked]]:
    """The groups, and plans that cannot be bounded since a link's figures are missing."""
    members: dict[tuple[int, int, int, int, int, Choices], list[Degrees]] = {}
    for degrees, choices in asked:
        batch = -(-workload.concurrency // (degrees.dp * degrees.pp))
        key = (degrees.tp, degrees.cp, degrees.ep, degrees.etp, batch.bit_length(), choices)
        members.setdefault(key, []).append(degrees)
    found, others = [], []
    for (*_, choices), held in members.items():
        group = _group(tuple(held), choices, floor, profile, workload)
        if group is None:
            others += [(degrees, choices) for degrees in held]
        else:
            found.append(group)
    return found, others


def _group(
    held: tuple[Degrees, ...], choices: Choices, floor: ServingFloor, profile: PlatformProfile, workload: Workload
) -> Group | None:
    sequences = [(-(-workload.concurrency // degrees.dp), degrees.pp) for degrees in held]
    each = min(count / pp for count, pp in sequences)
    batch = min(-(-count // min(pp, count)) for count, pp in sequences)
    served = floor.together(held[0], choices, batch, each)
    if served is None:
        return None
    smallest = min(held, key=attrgetter("world"))
    return Group(held, choices, served, occupied_devices(smallest, profile), smallest.world)


def group_preference(workload: Workload, group: Group) -> tuple[float, ...]:
    """What sorts no later than any of its members' `preference`."""
    speed = speed_of(workload, group.served)
    if workload.objective is Objective.FEWEST_DEVICES:
        return (group.occupied, group.world, *speed)
    return speed
