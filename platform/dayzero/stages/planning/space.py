"""Which degrees are worth judging: every division of the model, less those that cannot be better than another.

Left out, because another is at least as good in time and memory with no more devices: data-parallel degrees between two sizes
at which the pipeline leaves a link domain (the larger serves fewer sequences a replica), tensor-parallel degrees above the
number of heads. A degree that the structure refuses is refused once, for all plans that have it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.plan import Rejection
from dayzero.domain.planning import Degrees, Objective, Workload
from dayzero.domain.platforms import PlatformProfile
from dayzero.stages.layout.constraints import Limits

SMALL = 8
"""Up to so many devices every data-parallel degree is judged."""
EVERY_DIVISION = 64
"""Up to so many devices the widest plan is sought among all divisions: verification climbs through them."""
LONG_CONTEXT_TOKENS = 32768
"""Below it a sequence is not cut over context-parallel ranks: its attention is no large part of a step."""
_CONTEXT_DEGREES = (1, 2, 4, 8)
_EXPERTS_ALONE = frozenset({"expert size", "block quantization", "tensor size", "shape", "experts", "expert group"})
"""Reasons that another expert-parallel degree may remove; any other is one against the tensor-parallel degree itself."""


@dataclass(frozen=True, slots=True)
class Space:
    """What is enumerated: devices, the sizes of link domains, and how far."""

    spec: ModelSpec
    workload: Workload
    devices: int
    domains: tuple[int, ...]
    complete: bool
    limits: Limits
    proven: bool

    def refused(self, degrees: Degrees) -> tuple[Rejection, ...]:
        """What the structure has against the degrees."""
        return self.limits.violations(degrees, self.workload.redundant_experts, proven=self.proven)


def space_of(spec: ModelSpec, profile: PlatformProfile, workload: Workload, devices: int, *, complete: bool = False) -> Space:
    """The space of a request; `complete` leaves nothing out (for small numbers of devices)."""
    domains = tuple(sorted({domain.devices for domain in profile.link_domains if domain.devices < devices}))
    proven = profile.torch_device == "cpu"
    return Space(spec, workload, devices, domains, complete or devices <= SMALL, Limits(spec), proven)


def candidates(space: Space) -> Iterator[Degrees | Rejection]:
    """Every division to judge, and what was refused before its data-parallel degrees were counted."""
    if space.workload.objective is Objective.WIDEST and space.devices <= EVERY_DIVISION:
        yield from _every(space)
        return
    for tp in range(1, _most_tensor(space) + 1):
        refused = _refused_tensor(space, Degrees(tp=tp))
        if refused is not None:
            yield refused
            continue
        for cp in _contexts(space):
            yield from _of_tensor(space, tp, cp)


def _every(space: Space) -> Iterator[Degrees]:
    """All of tp, pp, dp, and the ep that share experts out whole: multiples of tp that divide the ranks of a stage."""
    experts = any(layer.experts for layer in space.spec.layers)
    for tp in range(1, space.devices + 1):
        for pp in range(1, space.devices // tp + 1):
            for dp in range(1, space.devices // (tp * pp) + 1):
                shares = [tp * share for share in range(1, dp + 1) if dp % share == 0 and tp * share > 1] if experts else []
                for ep in (1, *shares):
                    yield Degrees(tp, pp, ep, dp)


def _most_tensor(space: Space) -> int:
    heads = max((mixer.heads or 1 for layer in space.spec.layers for mixer in layer.mixers), default=1)
    return min(space.devices, heads)


def _refused_tensor(space: Space, degrees: Degrees) -> Rejection | None:
    return next((reason for reason in space.refused(degrees) if reason.family not in _EXPERTS_ALONE), None)


def _contexts(space: Space) -> tuple[int, ...]:
    training = space.workload.training
    tokens = space.workload.context_tokens if training is None else training.sequence_tokens
    if space.workload.objective is Objective.WIDEST or tokens < LONG_CONTEXT_TOKENS:
        return (1,)
    return tuple(cp for cp in _CONTEXT_DEGREES if cp <= space.devices)


def _of_tensor(space: Space, tp: int, cp: int) -> Iterator[Degrees | Rejection]:
    for ep, etp in _expert_degrees(space, tp, space.devices // cp):
        shared = max(1, ep * etp // tp)
        refused = space.refused(Degrees(tp, 1, ep, shared, cp, etp))
        if refused:
            yield refused[0]
            continue
        stages = max(1, len(space.spec.layers))
        for pp in range(1, space.devices // (tp * cp * shared) + 1):
            if pp > stages:
                if pp == stages + 1:
                    yield _too_deep(Degrees(tp, pp, ep, shared, cp, etp), stages)
                break
            for dp in _replicas(space, tp * cp * pp, shared):
                yield Degrees(tp, pp, ep, dp, cp, etp)


def _too_deep(degrees: Degrees, layers: int) -> Rejection:
    reason = f"{layers} layers do not fill pp {degrees.pp} stages or more"
    return Rejection(degrees, "layers", reason, {"layers": layers, "pp": degrees.pp})


def _expert_degrees(space: Space, tp: int, ranks: int) -> Iterator[tuple[int, int]]:
    """ep and etp whose product is a multiple of tp and no more than the ranks of a stage; (1, 1): every expert cut by tp."""
    yield 1, 1
    counts = {layer.experts for layer in space.spec.layers} - {0}
    if not counts:
        return
    for ep in range(2, min(ranks, *counts) + 1):
        if any(count % ep for count in counts) and not space.complete:
            continue
        for etp in range(1, tp + 1):
            if tp % etp == 0 and (ep * etp) % tp == 0 and ep * etp <= ranks:
                yield ep, etp


def _replicas(space: Space, group: int, shared: int) -> Iterator[int]:
    """Data-parallel degrees: multiples of the replicas that share experts."""
    most = space.devices // (group * shared)
    if space.complete:
        yield from (shared * count for count in range(1, most + 1))
        return
    sizes = {most, *(domain // (group * shared) for domain in space.domains)}
    yield from (shared * count for count in sorted(sizes) if 1 <= count <= most)
