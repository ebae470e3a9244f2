"""Placement: which rank sits on which node and in which link domains, and inside which domain each group talks.

Ranks are numbered tensor-parallel first, then context, then data, then pipeline: a tensor-parallel group, which talks twice
a layer, sits on neighbours, and a pipeline, which talks once a stage, spans the farthest links.
"""

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass

from dayzero.domain.plan import ParallelPlan, Placement
from dayzero.domain.planning import Degrees
from dayzero.domain.platforms import Figure, LinkDomain, PlatformProfile

RANK_ORDER = ("tp", "cp", "dp", "pp")
"""The axes from the one that changes fastest with the rank's number."""


@dataclass(frozen=True, slots=True)
class Position:
    """A rank's index on each axis; `ep` is its index among the ranks that share one set of experts."""

    tp: int
    cp: int
    dp: int
    pp: int
    ep: int


@dataclass(frozen=True, slots=True)
class Spread:
    """Where the groups of one kind lie: `size` ranks each, at most on so many nodes, all inside one instance of `domain`
    (None: no known domain holds a group); `left` is the next smaller domain, which at least one group leaves."""

    kind: str
    size: int
    groups: int
    nodes: int
    domain: LinkDomain | None
    left: LinkDomain | None


def position_of(rank: int, degrees: Degrees) -> Position:
    """The rank's place on each axis."""
    tp, rest = rank % degrees.tp, rank // degrees.tp
    cp, rest = rest % degrees.cp, rest // degrees.cp
    dp, pp = rest % degrees.dp, rest // degrees.dp
    inside = (dp * degrees.tp + tp) % (degrees.ep * degrees.etp)
    return Position(tp, cp, dp, pp, inside // degrees.etp)


def node_devices(profile: PlatformProfile) -> int | None:
    """Devices of one node; None where nobody says. The processes of a host are one node, however many."""
    if profile.devices_per_node is None or profile.torch_device == "cpu":
        return None
    return max(1, int(profile.devices_per_node.value))


def place(degrees: Degrees, profile: PlatformProfile) -> tuple[Placement, ...]:
    """Every rank on a node and in each of the profile's link domains, by rank.

    Nodes are filled in order. Where tensor-parallel groups fit a node but do not divide it, a node takes whole groups only,
    unless that takes more nodes than the ranks need. Where a node's size is not known all ranks are on node 0.
    """
    size = node_devices(profile) or degrees.world
    taken = _ranks_a_node(degrees, size)
    domains = nested(profile)
    places = []
    for rank in range(degrees.world):
        node, device = divmod(rank, taken)
        slot = node * size + device
        places.append(Placement(rank, node, tuple(slot // domain.devices for domain in domains)))
    return tuple(places)


def placed(plan: ParallelPlan, profile: PlatformProfile) -> tuple[Placement, ...]:
    """Where a plan's ranks sit: as it says, else as they would be placed."""
    return plan.placement or place(plan.degrees, profile)


def by_node(places: tuple[Placement, ...]) -> dict[int, list[int]]:
    """The ranks of each node, by node."""
    found: dict[int, list[int]] = defaultdict(list)
    for at in places:
        found[at.node].append(at.rank)
    return dict(sorted(found.items()))


def nested(profile: PlatformProfile) -> tuple[LinkDomain, ...]:
    """The link domains that join two devices or more, the smallest first."""
    return tuple(sorted((one for one in profile.link_domains if one.devices > 1), key=lambda one: one.devices))


def _ranks_a_node(degrees: Degrees, size: int) -> int:
    whole = size // degrees.tp * degrees.tp
    if whole and -(-degrees.world // whole) == -(-degrees.world // size):
        return whole
    return size


def groups_of(degrees: Degrees) -> dict[str, tuple[tuple[int, ...], ...]]:
    """The ranks of each group by kind (tp, cp, ep, dp, pp); kinds of one rank a group are left out.

    An ep group is the ranks of one stage that hold one set of experts between them, slices of experts included.
    """
    found: dict[str, dict[tuple[int, ...], list[int]]] = defaultdict(lambda: defaultdict(list))
    sharing = max(1, degrees.attention_dp)
    for rank in range(degrees.world):
        at = position_of(rank, degrees)
        found["tp"][at.pp, at.dp, at.cp].append(rank)
        found["cp"][at.pp, at.dp, at.tp].append(rank)
        found["dp"][at.pp, at.cp, at.tp].append(rank)
        found["pp"][at.dp, at.cp, at.tp].append(rank)
        if degrees.ep > 1:
            found["ep"][at.pp, at.dp // sharing, at.cp].append(rank)
    kinds = {kind: tuple(tuple(ranks) for ranks in groups.values()) for kind, groups in found.items()}
    return {kind: kinds[kind] for kind in ("tp", "cp", "ep", "dp", "pp") if kind in kinds and len(kinds[kind][0]) > 1}


def spreads(
    degrees: Degrees, profile: PlatformProfile, places: tuple[Placement, ...] = (), *, training: bool = False
) -> tuple[Spread, ...]:
    """Where the groups of each kind lie, the kind that talks most first. Replicas talk to each other in training alone."""
    at = places or place(degrees, profile)
    domains = nested(profile)
    answer = []
    for kind, groups in groups_of(degrees).items():
        if kind == "dp" and not training:
            continue
        nodes = max(len({at[rank].node for rank in ranks}) for ranks in groups)
        holding = [
            all(len({at[rank].domains[level] for rank in ranks}) == 1 for ranks in groups) for level in range(len(domains))
        ]
        level = next((index for index, holds in enumerate(holding) if holds), None)
        below = (len(domains) if level is None else level) - 1
        answer.append(
            Spread(
                kind,
                len(groups[0]),
                len(groups),
                nodes,
                None if level is None else domains[level],
                domains[below] if below >= 0 else None,
            )
        )
    return tuple(answer)


def placement_warnings(
    degrees: Degrees, profile: PlatformProfile, places: tuple[Placement, ...], *, training: bool = False
) -> tuple[str, ...]:
    """What an engineer should know of the placement: groups that leave their fast domain, nodes and domains that nobody
    knows, and figures that do not add up."""
    said = list(_topology(profile, places))
    for spread in spreads(degrees, profile, places, training=training):
        if spread.kind == "tp" and spread.left is not None:
            where = joined(spread, profile)
            said.append(
                f"tensor-parallel groups of {spread.size} leave {linked(spread.left)}: their collectives run over {where}"
            )
        elif spread.domain is None and nested(profile) and profile.nic_bytes_per_s is None:
            said.append(f"{spread.kind} groups of {spread.size} run over {outside(spread, profile)}")
    return tuple(said)


def _topology(profile: PlatformProfile, places: tuple[Placement, ...]) -> list[str]:
    said = []
    if profile.devices_per_node is None and profile.torch_device != "cpu" and len(places) > 1:
        said.append(f"how many devices a node has is not known for {profile.slug}: nodes are not told apart")
    if not nested(profile) and profile.torch_device != "cpu" and len(places) > 1:
        said.append(f"no link domain is known for {profile.slug}: nobody can say which links a group uses")
    sizes = [(domain.name, domain.devices) for domain in nested(profile)]
    if (node := node_devices(profile)) is not None and node > 1:
        sizes = sorted([*sizes, ("node", node)], key=lambda pair: pair[1])
    for (small, inner), (large, outer) in itertools.pairwise(sizes):
        if outer % inner:
            said.append(
                f"{small} of {inner} devices does not divide {large} of {outer}: the profile's topology does not add up"
            )
    return said


def joined(spread: Spread, profile: PlatformProfile) -> str:
    """What joins the ranks of a group: the link domain that holds it, or what is outside of all."""
    return outside(spread, profile) if spread.domain is None else linked(spread.domain)


def outside(spread: Spread, profile: PlatformProfile) -> str:
    """What joins a group that no link domain holds: the network between nodes."""
    if profile.torch_device == "cpu":
        return "the host's own memory"
    nic = profile.nic_bytes_per_s
    speed = _speed(nic) + (" a device" if nic else "")
    return f"the network between {spread.nodes} nodes ({speed})" if spread.nodes > 1 else "links that the profile does not know"


def linked(domain: LinkDomain) -> str:
    """A link domain with its size and speed."""
    return f"{domain.name} ({domain.devices} devices, {_speed(domain.bandwidth_bytes_per_s)})"


def _speed(rate: Figure | None) -> str:
    return "bandwidth not known" if rate is None else f"{rate.value / 1e9:,.0f} GB/s"


def node_lines(degrees: Degrees, places: tuple[Placement, ...], most: int) -> tuple[str, ...]:
    """One line a node: its ranks, their stage and groups; equal nodes beyond `most` lines are counted."""
    lines = [f"node {node}: {_node(degrees, ranks)}" for node, ranks in by_node(places).items()]
    if len(lines) <= most:
        return tuple(lines)
    return (*lines[: most - 2], f"… {len(lines) - most + 1} more nodes", lines[-1])


def _node(degrees: Degrees, ranks: list[int]) -> str:
    at = [position_of(rank, degrees) for rank in ranks]
    parts = [_counted("rank", set(ranks))]
    if degrees.pp > 1:
        parts.append(_counted("stage", {one.pp for one in at}))
    if degrees.dp > 1:
        parts.append(_counted("replica", {one.dp for one in at}))
    if degrees.ep > 1:
        parts.append(_counted("expert rank", {one.ep for one in at}))
    if degrees.tp > 1:
        whole = len(ranks) / degrees.tp
        parts.append(
            f"{whole:g} tp group{'' if whole == 1 else 's'}"
            if whole >= 1
            else f"part {math.floor(at[0].tp / len(ranks)) + 1} of {math.ceil(1 / whole)} of a tp group"
        )
    return ", ".join(parts)


def _counted(name: str, numbers: set[int]) -> str:
    return f"{name}{'' if len(numbers) == 1 else 's'} {ranges(sorted(numbers))}"


def ranges(numbers: list[int] | tuple[int, ...]) -> str:
    """Numbers in ascending order as ranges: 0-7,16."""
    said: list[str] = []
    start = last = None
    for number in numbers:
        if last is not None and number == last + 1:
            last = number
            continue
        if start is not None and last is not None:
            said.append(_range(start, last))
        start = last = number
    if start is not None and last is not None:
        said.append(_range(start, last))
    return ",".join(said)


def _range(start: int, last: int) -> str:
    return f"{start}" if start == last else f"{start}-{last}"
