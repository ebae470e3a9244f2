"""Which plan is better: by objective, and the front of throughput a device against speed for one user."""

from dataclasses import dataclass

from dayzero.domain.planning import Choices, Degrees, Objective, Workload
from dayzero.domain.platforms import PlatformProfile
from dayzero.stages.cost.serving import Served
from dayzero.stages.cost.training import Trained


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan that is structurally possible, with its likely times in serving or training (None: a figure is missing).

    `bounded`: no plan of its kind is faster than these times, and its own were not worked out.
    """

    degrees: Degrees
    choices: Choices
    served: Served | None
    trained: Trained | None = None
    bounded: bool = False


def occupied_devices(degrees: Degrees, profile: PlatformProfile) -> int:
    """Devices that the plan keeps others from: whole nodes, once it needs more than one."""
    node = int(profile.devices_per_node.value) if profile.devices_per_node is not None else 1
    world = degrees.world
    return world if world <= node or node < 1 else -(-world // node) * node


def widest_first(degrees: Degrees) -> tuple[int, ...]:
    """Larger worlds first, then more model parallelism (its rungs are what is verified), tensor before pipeline, and whole
    experts only where slices do not do."""
    return (-degrees.world, -degrees.tp * degrees.pp, -degrees.tp, degrees.ep, degrees.etp, degrees.cp)


def preference(
    workload: Workload, profile: PlatformProfile, candidate: Candidate, longest_tokens: int = 0
) -> tuple[float, ...]:
    """Sorts the best first: plans without estimates behind those with, equals by fewer devices, then by less communication."""
    degrees, speed = candidate.degrees, _speed(workload, candidate)
    if workload.objective is Objective.WIDEST:
        return tuple(map(float, widest_first(degrees)))
    simple = (occupied_devices(degrees, profile), degrees.world, degrees.pp, degrees.tp, degrees.ep, degrees.etp, degrees.cp,
              candidate.choices.chunk_tokens or 0, candidate.choices.micro_batch, candidate.choices.virtual_stages,
              candidate.choices.sequence_parallel)  # fmt: skip
    if workload.objective is Objective.LONGEST_CONTEXT:
        return (-float(longest_tokens), *speed, *simple)
    if workload.objective is Objective.FEWEST_DEVICES:
        return (simple[0], simple[1], *speed, *simple[2:])
    return (*speed, *simple)


def _speed(workload: Workload, candidate: Candidate) -> tuple[float, float]:
    if candidate.trained is not None:
        return (0.0, candidate.trained.step_s)
    return (1.0, 0.0) if candidate.served is None else speed_of(workload, candidate.served)


def speed_of(workload: Workload, served: Served) -> tuple[float, float]:
    """Sorts the faster first: by the time that an answer takes, or by throughput."""
    if workload.objective is Objective.LATENCY:
        return (0.0, served.ttft_s + served.tpot_s * workload.generated_tokens)
    return (0.0, -served.tokens_per_s)
