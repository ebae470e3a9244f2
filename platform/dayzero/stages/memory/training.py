"""Memory of a training rank: what is kept for each parameter, sharded by ZeRO, and what is kept for each token."""

from collections.abc import Mapping
from dataclasses import dataclass

from dayzero.domain.planning import Degrees, Optimizer, Training
from dayzero.stages.memory.parameters import Held, TrainedParameters
from dayzero.stages.memory.training_state import moment_bytes, parameter_bytes

ADAPTER_BYTES = {"adapters": 4, "gradients": 4}
"""Adapters and their gradients are float32 whatever the frozen weights are (PEFT, autocast_adapter_dtype)."""


@dataclass(frozen=True, slots=True)
class Replicas:
    """Ranks that hold the same parameters, over which ZeRO shards: dense ones over dp × cp; experts that are whole on an
    expert-parallel rank only over the ranks that hold the same experts."""

    dense: int
    experts: int


def replicas_of(degrees: Degrees) -> Replicas:
    """The replicas of a plan."""
    dense = degrees.dp * degrees.cp
    return Replicas(dense, max(1, degrees.tp * dense // (degrees.ep * degrees.etp)) if degrees.ep > 1 else dense)


def sharded(held: Held, replicas: Replicas, by_zero: bool) -> Held:
    """The rank's share, rounded up; all of it where the stage of ZeRO does not shard."""
    if not by_zero:
        return held
    return Held(-(-held.matrices // replicas.dense), -(-held.others // replicas.dense),
                -(-held.expert_matrices // replicas.experts), -(-held.expert_others // replicas.experts))  # fmt: skip


def state_items(
    parameters: TrainedParameters, training: Training, degrees: Degrees, stage: int, native_dtype: str | None
) -> Mapping[str, int]:
    """Weights, gradients, master weights and moments on a rank of a stage, or with adapters what those take.

    ZeRO (arXiv 1910.02054, section 5) shards optimizer state from stage 1, gradients from 2, weights from 3.
    """
    held, replicas = parameters.held(degrees).stages[stage], replicas_of(degrees)
    if training.lora_rank is not None:
        held = Held(parameters.adapters(degrees, training.lora_rank)[stage])
        each: Mapping[str, int] = ADAPTER_BYTES
    else:
        each = parameter_bytes(native_dtype)
    first = {"weights": 3, "adapters": 3, "gradients": 2}
    items = {name: size * sharded(held, replicas, training.zero >= first.get(name, 1)).total for name, size in each.items()}
    return {**items, "moments": moments(training.optimizer, sharded(held, replicas, training.zero >= 1))}


def moments(optimizer: Optimizer, held: Held) -> int:
    """Bytes of the moments of these parameters."""
    matrices = held.matrices + held.expert_matrices
    return sum(moment_bytes(optimizer, matrices, held.total - matrices).values())


def gather_bytes(
    parameters: TrainedParameters, training: Training, degrees: Degrees, stage: int, native_dtype: str | None
) -> int:
    """Whole layers that sharding keeps beside the shards: with ZeRO 3 the layer at work and the next one, gathered; from
    ZeRO 2 the gradients of one layer until they are reduced. Experts are gathered over their own replicas."""
    replicas = replicas_of(degrees)
    if max(replicas.dense, replicas.experts) == 1:
        return 0
    each = parameter_bytes(native_dtype)
    largest = parameters.held(degrees).largest[stage]
    gathered = 2 * largest * each["weights"] if training.zero >= 3 else 0
    reduced = largest * each["gradients"] if training.zero >= 2 and training.lora_rank is None else 0
    return gathered + reduced


def micro_batches_of(training: Training, degrees: Degrees, micro_batch: int) -> int:
    """Micro-batches that one replica takes in one optimizer step; at least one."""
    return max(1, training.tokens_per_step // (degrees.dp * micro_batch * training.sequence_tokens))
