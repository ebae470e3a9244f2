"""Operators of a token mixer in closed form: projections, the core of each kind of attention, recurrences."""

from collections.abc import Iterator, Sequence

from dayzero.domain.architecture import Mixer
from dayzero.domain.costs import Load, Matrix, Operation

_QUERY_BLOCK = 128
"""Queries that read a cached key once between them in fused attention (FlashAttention-2, arXiv 2307.08691, section 3.1)."""
_RECURRENT_CHUNK = 64
"""Tokens that pass between two reads of a recurrent state in prefill (chunked form, arXiv 2406.06484, section 3)."""
_RECURRENT_FLOPS = 8
"""FLOPs a state element and token: decay, read, outer product, update, two each (gated delta rule, arXiv 2412.06464)."""
ACTIVATION_BYTES = 2


def linear(
    matrices: Sequence[Matrix], tokens: float, tp: int, compute: str = "gemm", memory: str = "stream"
) -> Iterator[Operation]:
    """Each matrix times so many tokens, on one of tp ranks."""
    for matrix in matrices:
        slices = matrix.slices(tp)
        flops = 2.0 * tokens * matrix.rows * matrix.columns / slices
        moved = matrix.stored_bytes / slices + tokens * (matrix.rows + matrix.columns) / slices * ACTIVATION_BYTES
        yield Operation(matrix.name, flops, moved, matrix.scheme or "native", compute, memory)


def mixer_operations(
    mixer: Mixer, matrices: Sequence[Matrix], load: Load, tp: int, cp: int, cache: float
) -> Iterator[Operation]:
    """Operators of one mixer on one rank; a cached element has `cache` bytes. Context-parallel ranks share prefill tokens
    and cached ones."""
    prefill = load.prefill_tokens / cp
    yield from linear(matrices, prefill + load.decode_sequences, tp)
    yield from core_operations(mixer, load, tp, cp, cache)


def core_operations(mixer: Mixer, load: Load, tp: int, cp: int, cache: float) -> Iterator[Operation]:
    """What a mixer does beside its projections."""
    prefill = load.prefill_tokens / cp
    if mixer.recurrence is not None:
        yield from _recurrence(mixer, prefill, load.decode_sequences, tp)
    elif "lightning" in mixer.kind:
        yield from _lightning(mixer, prefill, load.decode_sequences, tp)
    else:
        yield from _attention(mixer, load, tp, cp, cache)


def _attention(mixer: Mixer, load: Load, tp: int, cp: int, cache: float) -> Iterator[Operation]:
    prefill = load.prefill_tokens / cp
    if prefill:
        if mixer.indexer is not None:
            yield _index(mixer, prefill, load.prefill_context, prefill / _QUERY_BLOCK, cache)
        seen = visible_tokens(mixer, load.prefill_context)
        yield _core(mixer, prefill, seen, tp, prefill / _QUERY_BLOCK * seen, cache, absorbed=False)
    if load.decode_sequences:
        sequences = float(load.decode_sequences)
        if mixer.indexer is not None:
            yield _index(mixer, sequences, load.decode_context / cp, sequences, cache)
        seen = visible_tokens(mixer, load.decode_context) / cp
        yield _core(mixer, sequences, seen, tp, sequences * seen, cache, absorbed=True)


def visible_tokens(mixer: Mixer, context: float) -> float:
    """Cached entries that one token attends to behind so many tokens."""
    if mixer.kind == "attention.compressed":
        entries = context / mixer.compression if mixer.compression else 0.0
        if mixer.indexer is not None and mixer.indexer.top_k:
            entries = min(entries, mixer.indexer.top_k)
        return min(context, mixer.window_tokens or context) + entries
    limits = [limit for limit in (mixer.window_tokens, mixer.chunk_tokens) if limit]
    if mixer.indexer is not None and mixer.indexer.top_k:
        limits.append(mixer.indexer.top_k * (mixer.indexer.block_tokens or 1))
    return min([context, *limits])


def _core(mixer: Mixer, tokens: float, seen: float, tp: int, reads: float, cache: float, *, absorbed: bool) -> Operation:
    """Scores and weighted sum. In decode MLA works on the latent itself (absorbed, DeepSeek-V2, arXiv 2405.04434, 2.1)."""
    heads = max(1.0, (mixer.heads or 0) / tp)
    width = (mixer.head_dim or 0) + (mixer.value_head_dim or 0)
    entry = max(1.0, (mixer.kv_heads or 0) / tp) * width
    what = "attention"
    if mixer.kv_lora_rank is not None:
        latent, rope = mixer.kv_lora_rank, mixer.rope_head_dim or 0
        entry = latent + rope
        width = 2 * latent + rope if absorbed else width
        what = "attention, absorbed" if absorbed else what
    elif mixer.one_projection or mixer.kind == "attention.compressed":
        entry = float(mixer.head_dim or 0)
    moved = reads * entry * cache + tokens * heads * width * ACTIVATION_BYTES
    return Operation(what, 2.0 * tokens * seen * heads * width, moved, "native", "attention", "cache_stream", 2)


def _index(mixer: Mixer, tokens: float, context: float, passes: float, cache: float) -> Operation:
    """Scores of the indexer over all it has cached, whole on every rank."""
    indexer = mixer.indexer
    assert indexer is not None
    entries = context / (mixer.compression or indexer.block_tokens or 1)
    flops = 2.0 * tokens * entries * indexer.heads * indexer.head_dim
    return Operation("indexer", flops, passes * entries * indexer.head_dim * cache, "native", "attention", "cache_stream", 2)


def _recurrence(mixer: Mixer, prefill: float, sequences: float, tp: int) -> Iterator[Operation]:
    state = mixer.recurrence
    assert state is not None
    elements = state.heads * state.key_dim * state.value_dim / tp
    # State is read and written once a sequence in decode, once a chunk in prefill.
    passes = sequences + prefill / _RECURRENT_CHUNK
    size = 4 if state.state_dtype == "float32" else 2
    tokens = prefill + sequences
    yield Operation("recurrence", _RECURRENT_FLOPS * tokens * elements, passes * elements * 2 * size, "native", "recurrent",
                    "cache_stream", 2)  # fmt: skip
    if state.conv_kernel:
        channels = state.conv_channels / tp
        yield Operation("convolution", 2.0 * tokens * channels * state.conv_kernel,
                        tokens * channels * 2 * ACTIVATION_BYTES, "native", "recurrent", "stream")  # fmt: skip


def _lightning(mixer: Mixer, prefill: float, sequences: float, tp: int) -> Iterator[Operation]:
    """Lightning attention (MiniMax-01, arXiv 2501.08313): a float32 state of head width squared a head."""
    elements = (mixer.heads or 0) * (mixer.head_dim or 0) ** 2 / tp
    passes = sequences + prefill / _RECURRENT_CHUNK
    yield Operation("recurrence", 6 * (prefill + sequences) * elements, passes * elements * 8, "native", "recurrent",
                    "cache_stream", 2)  # fmt: skip
