"""What the figures of memory take for granted, said with each plan."""

from collections.abc import Iterator

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.findings import Assumption
from dayzero.domain.planning import Choices, Workload
from dayzero.domain.platforms import PlatformProfile
from dayzero.stages.memory.step import CAPACITY, Execution, copies_head


def memory_assumptions(
    spec: ModelSpec, profile: PlatformProfile, workload: Workload, choices: Choices, execution: Execution
) -> tuple[Assumption, ...]:
    """One for each item that rests on something which no configuration and no profile states."""
    return tuple(_assumptions(spec, profile, workload, choices, execution))


def _assumptions(
    spec: ModelSpec, profile: PlatformProfile, workload: Workload, choices: Choices, execution: Execution
) -> Iterator[Assumption]:
    if workload.training is None:
        how = (
            "one prompt is prefilled at once, whole"
            if choices.chunk_tokens is None
            else f"{choices.chunk_tokens} tokens a step"
        )
        yield Assumption(
            "activations", how, "the serving engine decides; a whole prompt needs the most memory of the usual ways"
        )
    else:
        yield Assumption("activations", "attention is fused: no scores are kept", "every current training framework fuses it")
    if not execution.fused_elementwise:
        yield Assumption("execution", "one operator at a time", "the modelling library runs there, without fused kernels")
    if copies_head(profile, execution) and workload.training is None:
        how = "in 16 bits a copy of the head for each sequence"
        yield Assumption("logits", how, "torch 2.13 multiplies the last tokens of a prefill as a batch of matrices on a host")
    if any(layer.experts for layer in spec.layers):
        share = f"an even share of the tokens times {CAPACITY}"
        yield Assumption("expert_buffers", share, "routing decides; this is the capacity factor of Switch Transformers")
    links = "hidden states of one step, in and out, for each kind of collective"
    yield Assumption("communication_buffers", links, "what the communication library keeps for itself is in the reserve")
    if profile.reserve_bytes is None:
        why = f"nobody measured what runtime, allocator and graphs keep on {profile.slug} (reserve_bytes): it is left out"
        yield Assumption("reserve", "nothing", why)
