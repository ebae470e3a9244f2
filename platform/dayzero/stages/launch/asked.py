"""What an engine is asked to run: a plan in the terms that engines share."""

from collections.abc import Iterator
from dataclasses import dataclass

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.plan import ParallelPlan
from dayzero.domain.planning import Degrees, Workload
from dayzero.domain.platforms import PlatformProfile
from dayzero.stages.memory.step import sequences_of
from dayzero.stages.planning.placement import node_devices

MODEL_DIR = "${MODEL_DIR}"


def address(node: int) -> str:
    """The placeholder of a node's network address."""
    return f"${{ADDRESS_{node}}}"


@dataclass(frozen=True, slots=True)
class Pool:
    """The plan is one of two pools: its role, prefill or decode, and how each of both is divided."""

    role: str
    prefill: Degrees
    decode: Degrees


@dataclass(frozen=True, slots=True)
class Asked:
    """A plan, what it is for and where it runs; `pool` where it is one of two.

    Engines know two kinds of data parallelism. Replicas of attention that share one set of experts are one *instance* of the
    engine; replicas of the whole model are independent instances.
    """

    spec: ModelSpec
    plan: ParallelPlan
    profile: PlatformProfile
    workload: Workload
    pool: Pool | None = None

    @property
    def sharing(self) -> int:
        """Replicas of attention inside one instance."""
        return self.plan.degrees.attention_dp

    @property
    def replica_devices(self) -> int:
        """Devices of one replica of attention: tensor, context and pipeline parallel."""
        degrees = self.plan.degrees
        return degrees.tp * degrees.cp * degrees.pp

    @property
    def instance_devices(self) -> int:
        """Devices of one instance."""
        return self.replica_devices * self.sharing

    @property
    def instances(self) -> int:
        """Independent instances."""
        return self.plan.degrees.dp // self.sharing

    @property
    def has_experts(self) -> bool:
        """Whether any layer has routed experts."""
        return any(layer.experts for layer in self.spec.layers)

    @property
    def node_size(self) -> int:
        """Devices of one node; where nobody knows it all that the plan takes."""
        return node_devices(self.profile) or self.plan.degrees.world

    @property
    def sequences(self) -> int:
        """Sequences that one replica of attention serves at once."""
        return self.plan.sequences or max(1, sequences_of(self.workload, self.plan.degrees))

    @property
    def is_apart(self) -> bool:
        """Whether prefill and decode have instances of their own."""
        return self.pool is not None or self.plan.choices.prefill_devices > 0

    @property
    def layer_counts(self) -> tuple[int, ...]:
        """Layers of each stage."""
        return tuple(last - first for first, last in self.plan.stage_layers)

    def role_of(self, instance: int) -> str:
        """serve, or with disaggregation the pool's; without pools prefill for the first instances and decode for the others."""
        if self.pool is not None:
            return self.pool.role
        prefill = self.plan.choices.prefill_devices
        if not prefill:
            return "serve"
        return "prefill" if instance * self.instance_devices < prefill else "decode"


def common_refusals(asked: Asked, engine: str) -> Iterator[str]:
    """What no serving engine can be told, with the reason."""
    degrees, choices = asked.plan.degrees, asked.plan.choices
    if asked.workload.training is not None:
        yield f"{engine} serves; this is a plan for training"
    if choices.virtual_stages > 1:
        yield f"{engine} has no interleaved pipeline: {choices.virtual_stages} pieces a stage cannot be asked for"
    if choices.compressed:
        yield f"{engine} has no option for collectives of one byte an element"
    if degrees.dp % asked.sharing:
        yield f"dp {degrees.dp} is no multiple of the {asked.sharing} replicas that share experts"
    if choices.prefill_devices % asked.instance_devices:
        yield (
            f"{choices.prefill_devices} devices for prefill are no whole number of instances of "
            f"{asked.instance_devices} devices"
        )
    counts = asked.layer_counts
    if len(counts) not in (0, degrees.pp):
        yield f"the plan has {len(counts)} stages for pp {degrees.pp}"


def redundant_refusals(asked: Asked, engine: str) -> Iterator[str]:
    """Redundant experts must make the same number on every expert-parallel rank."""
    redundant, ep = asked.workload.redundant_experts, asked.plan.degrees.ep
    if not redundant or ep == 1:
        return
    for experts in sorted({layer.experts for layer in asked.spec.layers if layer.experts}):
        if (experts + redundant) % ep:
            yield f"{engine} wants equal experts on every rank: {experts} + {redundant} do not divide by ep {ep}"


def cache_refusal(asked: Asked, engine: str, known: dict[str | None, str]) -> Iterator[str]:
    """A cache dtype that the engine has no name for."""
    if asked.plan.choices.cache_dtype not in known:
        names = ", ".join(sorted(str(name) for name in known if name))
        yield f"{engine} has no {asked.plan.choices.cache_dtype} cache; it has {names}"
