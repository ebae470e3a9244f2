"""One forward step of a rank: how many tokens it takes, how it is cut, and how it is computed."""

from dataclasses import dataclass

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.planning import Choices, Degrees, Workload
from dayzero.domain.platforms import PlatformProfile
from dayzero.stages.parameters.weights import ELEMENT_BYTES

CAPACITY = 1.25
"""Tokens that one expert-parallel rank is ready to take, over its even share. Assumed: the capacity factor that Switch
Transformers (arXiv 2101.03961, section 2.2) found enough for balanced routers; a router out of balance needs more."""


@dataclass(frozen=True, slots=True)
class Execution:
    """How a step is computed.

    `fused_attention`: no matrix of scores is kept (FlashAttention, arXiv 2205.14135). `fused_elementwise`: rotary embedding,
    norms and gating work in place or inside another kernel, as in serving engines; else every operator has an output of its
    own. `experts`: grouped (all tokens of all experts at once) or loop (one expert after the other).
    """

    fused_attention: bool = True
    fused_elementwise: bool = True
    experts: str = "grouped"


ENGINE = Execution()
"""A serving engine's kernels."""

LIBRARY = Execution(fused_elementwise=False)
"""The modelling library on torch's own kernels: scaled_dot_product_attention and grouped matrix products."""

EAGER = Execution(fused_attention=False, fused_elementwise=False, experts="loop")
"""The modelling library's plain path, which our parallel runner takes."""


def copies_head(profile: PlatformProfile, execution: Execution) -> bool:
    """Whether the modelling library computes on a host, where a head in 16 bits is copied for each sequence."""
    return profile.torch_device == "cpu" and not execution.fused_elementwise


@dataclass(frozen=True, slots=True)
class Step:
    """What one step is asked to do on one rank. `replicas` of attention share one set of experts; with `sequence_parallel`
    norms and residuals hold a tp-th of the tokens."""

    tokens: int
    context: int
    element_bytes: int
    hidden: int
    tp: int = 1
    ep: int = 1
    etp: int = 1
    replicas: int = 1
    sequence_parallel: bool = False

    @property
    def stream_tokens(self) -> int:
        """Tokens whose residual stream the rank holds."""
        return -(-self.tokens // self.tp) if self.sequence_parallel else self.tokens

    def expert_tokens(self, per_token: int, experts: int) -> int:
        """Copies of tokens that the rank's experts take in: all of its own when experts are cut, else its share of those of
        all replicas, with CAPACITY, and never more than all of them at each of its experts."""
        if self.ep == 1:
            return self.tokens * per_token
        everywhere = self.tokens * self.replicas
        share = int(CAPACITY * everywhere * per_token / self.ep)
        return max(1, min(share, everywhere * min(per_token, max(1, experts // self.ep))))


def sequences_of(workload: Workload, degrees: Degrees) -> int:
    """Sequences that one data-parallel replica serves at once."""
    return -(-workload.concurrency // degrees.dp)


def prompt_tokens(workload: Workload) -> int:
    """Tokens of a sequence that are not generated; at least one."""
    return max(1, workload.context_tokens - workload.generated_tokens)


def step_of(spec: ModelSpec, workload: Workload, degrees: Degrees, choices: Choices) -> Step:
    """The larger of a prefill step (one chunk, or one whole prompt) and a decode step (a token of each sequence); a training
    step forward takes a micro-batch of whole sequences. With cp a rank holds its share of the tokens."""
    training = workload.training
    if training is not None:
        tokens = choices.micro_batch * training.sequence_tokens
        context = training.sequence_tokens
    else:
        sequences, prompt, context = sequences_of(workload, degrees), prompt_tokens(workload), workload.context_tokens
        prefill = prompt if choices.chunk_tokens is None else min(choices.chunk_tokens, prompt * sequences)
        tokens = max(prefill, sequences)
    return Step(
        -(-tokens // degrees.cp), context, ELEMENT_BYTES.get(spec.native_dtype or "", 2), spec.hidden_size or 0,
        degrees.tp, degrees.ep, degrees.etp, degrees.attention_dp if degrees.ep > 1 else 1, choices.sequence_parallel,
    )  # fmt: skip
