"""Bytes that a token mixer holds at its fullest moment in one forward step, beside the residual stream."""

from dayzero.domain.architecture import Mixer, Recurrence
from dayzero.stages.memory.step import Execution, Step

CHUNK_TOKENS = {"linear_attention.gated_delta": 64, "linear_attention.kimi_delta": 64, "linear_attention.lightning": 256,
                "ssm.mamba2": 256}  # fmt: skip
"""Tokens between two states that a chunked recurrence keeps (flash-linear-attention's chunk_gated_delta_rule and chunk_kda:
64; lightning attention's and Mamba-2's block: 256). Mamba-1 scans inside one kernel and keeps none."""

INDEX_LIMIT_BYTES = 512 << 20
"""Serving engines cut a prefill so that the indexer's scores take no more (vLLM, VLLM_SPARSE_INDEXER_MAX_LOGITS_MB)."""


def mixer_bytes(mixer: Mixer, step: Step, execution: Execution) -> int:
    """The fullest moment of one mixer on one of tp ranks, with its normed input and without its residual."""
    if mixer.recurrence is not None:
        return _recurrent(mixer, mixer.recurrence, step)
    return _attention(mixer, step, execution)


def _attention(mixer: Mixer, step: Step, execution: Execution) -> int:
    """Query, key and value with the attention's output. Computed one operator at a time, rotary embedding adds the product
    with the cosine, the rotated half, and its product with the sine, each as wide as the query."""
    heads = -(-(mixer.heads or 0) // step.tp)
    key_width = mixer.head_dim or 0
    value_width = mixer.value_head_dim if mixer.value_head_dim is not None else key_width
    query = heads * key_width
    if mixer.kv_lora_rank is not None:
        # The latent and its up-projection stay while whole keys are put together from it and the rotary key.
        latent = mixer.kv_lora_rank + (mixer.rope_head_dim or 0)
        projected = latent + heads * (key_width - (mixer.rope_head_dim or 0) + value_width)
        before = (mixer.q_lora_rank or 0) + query
        keys_values = projected + heads * key_width
        rotated = 3 * heads * (mixer.rope_head_dim or 0)
    else:
        kv_heads = max(1, -(-(mixer.kv_heads or 0) // step.tp)) if mixer.kv_heads else 0
        keys_values = kv_heads * (key_width if mixer.one_projection else key_width + value_width)
        before, rotated = query, 3 * query
    gate = heads * value_width if mixer.output_gate == "element" else 0
    output = heads * value_width
    computing = output + gate
    if not execution.fused_elementwise:
        computing = max(computing, rotated if mixer.positions == "rotary" else 0)
    width = step.hidden + before + keys_values + computing
    total = step.tokens * width * step.element_bytes
    if not execution.fused_attention:
        total += _scores(heads, key_width + value_width, step)
    elif not execution.fused_elementwise and key_width != value_width:
        total += _composite_scores(heads, step)
    return total + _index_bytes(mixer, step, execution)


def _scores(heads: int, width: int, step: Step) -> int:
    """Attention without a fused kernel: scores and their scaled copy, or scores and the float32 softmax; keys and values
    repeated for each query head."""
    each = max(2 * step.element_bytes, step.element_bytes + 4)
    return step.tokens * step.context * heads * each + step.context * heads * width * step.element_bytes


def _composite_scores(heads: int, step: Step) -> int:
    """torch's fused attention wants keys as wide as values; for others its composite keeps scores, their softmax, which scores
    are masked (a byte each), and the softmax without masked rows (aten, _scaled_dot_product_attention_math, _safe_softmax)."""
    return step.tokens * step.context * heads * (3 * step.element_bytes + 1)


def _index_bytes(mixer: Mixer, step: Step, execution: Execution) -> int:
    """An indexer's queries and key, and the scores of every cached token in float32 (DeepSeek-V3.2-Exp, section 2.1)."""
    indexer = mixer.indexer
    if indexer is None:
        return 0
    candidates = -(-step.context // (mixer.compression or indexer.block_tokens or 1))
    queries = step.tokens * (indexer.heads + 1) * indexer.head_dim * step.element_bytes
    scores = step.tokens * candidates * 4
    if not execution.fused_attention:
        return queries + scores * (indexer.heads + 1)
    return queries + (min(scores, INDEX_LIMIT_BYTES) if execution.fused_elementwise else scores)


def _recurrent(mixer: Mixer, state: Recurrence, step: Step) -> int:
    """Projections before and after the short convolution, gate and output, and the states between chunks."""
    heads = -(-state.heads // step.tp)
    values = heads * state.value_dim
    channels = -(-state.conv_channels // step.tp)
    if not state.conv_channels:
        channels = heads * (2 * state.key_dim + state.value_dim)
    width = step.hidden + 2 * channels + 2 * values
    if state.step_rank is not None:
        width += state.step_rank + 2 * state.key_dim + values
    every = CHUNK_TOKENS.get(mixer.kind)
    chunks = -(-step.tokens // every) if every else 0
    return step.tokens * width * step.element_bytes + chunks * values * state.key_dim * step.element_bytes
