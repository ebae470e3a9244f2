"""Instances of an engine onto the nodes where the plan's ranks sit."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from dayzero.stages.launch.asked import Asked
from dayzero.stages.planning.placement import Position, by_node, placed, position_of

FIRST_PORT = 8000
VISIBLE_DEVICES = {
    "nvidia": "CUDA_VISIBLE_DEVICES",
    "amd": "CUDA_VISIBLE_DEVICES",
    "ascend": "ASCEND_RT_VISIBLE_DEVICES",
    "intel": "HABANA_VISIBLE_MODULES",
    "mthreads": "MUSA_VISIBLE_DEVICES",
    "cambricon": "MLU_VISIBLE_DEVICES",
}
"""The variable that hides a node's other devices from a process, by vendor. Sources: `device_control_env_var` in vllm 0.32.0
vllm/platforms/cuda.py and rocm.py, vllm-ascend's, vllm-gaudi's and vllm-musa's platform; for Cambricon its own run scripts."""

Order = Callable[[Position], tuple[int, ...]]
"""How an engine numbers the ranks of one instance."""


@dataclass(frozen=True, slots=True)
class Seat:
    """The part of an instance that runs on one node: its devices there, and which part of the instance it is.

    `first_node` is where the instance's first rank sits, `before` counts the instance's ranks on earlier parts, `slot` the
    instances whose first node is the same and that come before.
    """

    instance: int
    part: int
    parts: int
    first_node: int
    node: int
    devices: tuple[int, ...]
    before: int = 0
    slot: int = 0

    @property
    def port(self) -> int:
        """Where it answers: instances that begin on one node have neighbouring ports."""
        return FIRST_PORT + self.slot


@dataclass(frozen=True, slots=True)
class Seating:
    """All seats; `as_placed` says whether ranks sit where the plan has them, or together as the engine wants them."""

    seats: tuple[Seat, ...]
    as_placed: bool

    @property
    def even(self) -> bool:
        """Whether every instance takes as many devices on each of its nodes."""
        sizes = defaultdict(set)
        for seat in self.seats:
            sizes[seat.instance].add(len(seat.devices))
        return all(len(found) == 1 for found in sizes.values())


def seats(asked: Asked, order: Order) -> Seating:
    """Where each instance runs: the plan's own placement where the engine can number its ranks so, else packed together."""
    placed = _placed(asked, order)
    return Seating(tuple(_slotted(placed or _packed(asked))), placed is not None)


def visible(asked: Asked, seat: Seat) -> dict[str, str]:
    """The environment that confines a process to its devices, where a node has more than it takes."""
    name = VISIBLE_DEVICES.get(asked.profile.vendor or "")
    alone = len(seat.devices) >= asked.node_size and asked.instances == 1
    if name is None or alone or asked.profile.torch_device == "cpu":
        return {}
    return {name: ",".join(str(device) for device in seat.devices)}


def sharing_notes(asked: Asked, seating: Seating) -> Iterator[str]:
    """What keeps instances on one node apart, where no variable is known to."""
    crowded = len({(seat.node, seat.instance) for seat in seating.seats}) > len({seat.node for seat in seating.seats})
    if crowded and asked.profile.vendor not in VISIBLE_DEVICES and asked.profile.torch_device != "cpu":
        yield (f"no source says which variable hides a node's other devices on {asked.profile.slug}: keep each instance to the "
               "devices that the descriptor gives it")  # fmt: skip


def _placed(asked: Asked, order: Order) -> list[Seat] | None:
    """By the plan's placement; None where a node would hold ranks that the engine numbers apart."""
    degrees = asked.plan.degrees
    places = placed(asked.plan, asked.profile)
    device = {rank: number for held in by_node(places).values() for number, rank in enumerate(held)}
    ranks: dict[int, list[tuple[tuple[int, ...], int]]] = defaultdict(list)
    for rank in range(degrees.world):
        where = position_of(rank, degrees)
        ranks[where.dp // asked.sharing].append((order(where), rank))
    found = []
    for instance, numbered in sorted(ranks.items()):
        runs: list[tuple[int, list[int]]] = []
        for _, rank in sorted(numbered):
            if not runs or runs[-1][0] != places[rank].node:
                runs.append((places[rank].node, []))
            runs[-1][1].append(rank)
        if len({node for node, _ in runs}) < len(runs):
            return None
        if len(runs) > 1 and not _fit_for(asked, [len(held) for _, held in runs]):
            return None
        before = 0
        for part, (node, held) in enumerate(runs):
            devices = tuple(sorted(device[rank] for rank in held))
            found.append(Seat(instance, part, len(runs), runs[0][0], node, devices, before))
            before += len(held)
    return found


def _fit_for(asked: Asked, sizes: list[int]) -> bool:
    """Whether engines can spread an instance so: whole replicas of attention on each node, or as many ranks on each."""
    return all(size % asked.replica_devices == 0 for size in sizes) or len(set(sizes)) == 1


def _packed(asked: Asked) -> list[Seat]:
    """Whole instances side by side on a node while they fit, else each over nodes of its own: whole replicas of attention where
    they fit a node, else as many ranks on each."""
    size, needed = asked.node_size, asked.instance_devices
    if needed <= size:
        a_node = size // needed
        firsts = [(instance, instance // a_node, instance % a_node * needed) for instance in range(asked.instances)]
        return [Seat(instance, 0, 1, node, node, tuple(range(at, at + needed))) for instance, node, at in firsts]
    replica = asked.replica_devices
    share = size // replica * replica or next(count for count in range(size, 0, -1) if needed % count == 0)
    parts = -(-needed // share)
    return [
        Seat(instance, part, parts, instance * parts, instance * parts + part,
             tuple(range(min(share, needed - part * share))), part * share)
        for instance in range(asked.instances) for part in range(parts)
    ]  # fmt: skip


def _slotted(found: list[Seat]) -> list[Seat]:
    slots: dict[int, dict[int, int]] = defaultdict(dict)
    for seat in found:
        slots[seat.first_node].setdefault(seat.instance, len(slots[seat.first_node]))
    return [replace(seat, slot=slots[seat.first_node][seat.instance]) for seat in found]
