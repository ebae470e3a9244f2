"""What a training step keeps between forward and backward, layer by layer.

Korthikanti et al. 2022 (arXiv 2205.05198, section 4) count 34·s·b·h + 5·a·s²·b bytes for a layer of a GPT: what each operator's
backward reads. The same count is made here for the layers of today: normed input, query, key, value and output of attention
computed by a fused kernel (no s² term; FlashAttention keeps its output and a float32 sum for each head and token), gated
feed-forwards (gate, up, activation, product instead of 19·s·b·h), experts with the tokens that they took, and no dropout masks.
"""

from dayzero.domain.architecture import FeedForward, Layer, Mixer
from dayzero.domain.planning import Choices, Degrees, Recompute
from dayzero.stages.memory.mixers import CHUNK_TOKENS
from dayzero.stages.memory.step import Step


def kept_bytes(layer: Layer, step: Step, recompute: Recompute) -> int:
    """Bytes that one micro-batch leaves in one layer.

    `full` keeps the layer's input alone (section 5 there). `selective` computes again what is cheap: norms, activations,
    products and MLA's up-projections (Megatron-Core's recompute modules core_attn, layernorm, moe_act and mla_up_proj);
    attention's own scores are computed again by the fused kernel in any case.
    """
    stream = step.stream_tokens * step.hidden * step.element_bytes
    if recompute is Recompute.FULL:
        return stream
    whole = recompute is Recompute.NONE
    total = 0
    for mixer in layer.mixers:
        total += stream * (2 if whole else 1) + _mixer(mixer, step, whole)
    if layer.feed_forward is not None:
        total += stream * (2 if whole else 1) + _feed_forward(layer.feed_forward, step, whole)
    return total


def _mixer(mixer: Mixer, step: Step, whole: bool) -> int:
    state = mixer.recurrence
    if state is not None:
        heads = -(-state.heads // step.tp)
        values = heads * state.value_dim
        channels = -(-state.conv_channels // step.tp) or heads * (2 * state.key_dim + state.value_dim)
        every = CHUNK_TOKENS.get(mixer.kind)
        chunks = -(-step.tokens // every) if every else 0
        width = channels * (2 if whole else 1) + 2 * values
        return (step.tokens * width + chunks * values * state.key_dim) * step.element_bytes
    heads = -(-(mixer.heads or 0) // step.tp)
    key_width = mixer.head_dim or 0
    value_width = mixer.value_head_dim if mixer.value_head_dim is not None else key_width
    width = heads * value_width + (heads * value_width if mixer.output_gate == "element" else 0)
    if mixer.kv_lora_rank is None:
        kv_heads = max(1, -(-(mixer.kv_heads or 0) // step.tp)) if mixer.kv_heads else 0
        width += heads * key_width + kv_heads * (key_width + value_width)
        # A norm of queries and keys reads them as they were before it.
        width += (heads + kv_heads) * key_width if mixer.qk_norm else 0
    else:
        latents = (mixer.q_lora_rank or 0) + mixer.kv_lora_rank + (mixer.rope_head_dim or 0)
        expanded = heads * (key_width + (key_width + value_width))
        width += 2 * latents + expanded if whole else latents
    if mixer.indexer is not None:
        width += (mixer.indexer.heads + 1) * mixer.indexer.head_dim
    return step.tokens * (width * step.element_bytes + heads * 4)


def _feed_forward(feed_forward: FeedForward, step: Step, whole: bool) -> int:
    each = _intermediates(feed_forward.gated, whole)
    if not feed_forward.routed_experts:
        return step.tokens * each * -(-(feed_forward.intermediate_size or 0) // step.tp) * step.element_bytes
    width = feed_forward.latent_size or step.hidden
    cut = -(-(feed_forward.intermediate_size or 0) // (step.tp if step.ep == 1 else step.etp))
    copies = step.expert_tokens(feed_forward.experts_per_token, feed_forward.routed_experts)
    total = copies * (2 * width + each * cut) * step.element_bytes
    total += step.tokens * 2 * 4 * (feed_forward.routed_experts + feed_forward.zero_experts)
    beside = (feed_forward.shared_intermediate_size or 0) + (feed_forward.dense_size or 0)
    return total + step.tokens * each * -(-beside // step.tp) * step.element_bytes


def _intermediates(gated: bool, whole: bool) -> int:
    """Widths of the feed-forward that stay: gate, up, activation and product, of which the last two are cheap."""
    if gated:
        return 4 if whole else 2
    return 2 if whole else 1


def in_flight(degrees: Degrees, choices: Choices, stage: int, micro_batches: int) -> tuple[int, int]:
    """Micro-batches whose activations a stage keeps at once, as a fraction (pieces, pieces a micro-batch).

    One forward one backward: stage i of p keeps p − i (Korthikanti, section 4.2.3). Interleaved over v virtual stages it keeps
    2·(p − i − 1) + (v − 1)·p + 1 pieces of a v-th (Megatron-LM's schedules, num_warmup_microbatches).
    """
    pieces = max(1, choices.virtual_stages)
    if degrees.pp == 1:
        return 1, 1
    if pieces == 1:
        return min(micro_batches, degrees.pp - stage), 1
    ahead = 2 * (degrees.pp - stage - 1) + (pieces - 1) * degrees.pp + 1
    return min(micro_batches * pieces, ahead), pieces
