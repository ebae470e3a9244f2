"""What one sequence keeps in the cache: exact bytes a token, with the steps where windows are full, and what does not grow."""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from math import ceil

from dayzero.domain.architecture import Layer, Mixer, SequenceState, StateSegment
from dayzero.errors import BadInputError

CACHE_DTYPE_BYTES: Mapping[str, int] = {
    "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1, "fp8": 1, "int8": 1,
}  # fmt: skip
"""Bytes an element, by cache dtype."""

Growth = tuple[Fraction, int | None]
"""Elements that one more token adds, and the number of tokens after which it adds no more (None: never)."""


def state_of(layers: tuple[Layer, ...] | None, kv_dtype: str) -> SequenceState:
    """The state of one sequence; numbers are None when the layers are unknown (None). BadInputError: unknown dtype.

    The last segment is the cost beyond every window. What `growth_of` and `constant_bytes_of` say of one mixer is summed.
    """
    element_bytes = cache_element_bytes(kv_dtype)
    if layers is None:
        return SequenceState(kv_dtype, None, None)
    mixers = [mixer for layer in layers for mixer in layer.mixers]
    grows = [growth for mixer in mixers for growth in growth_of(mixer)]
    steps = sorted({0, *(limit for _, limit in grows if limit is not None)})
    segments = tuple(
        StateSegment(step, ceil(sum(cost for cost, limit in grows if limit is None or limit > step) * element_bytes))
        for step in steps
    )
    constant = sum(constant_bytes_of(mixer, 1, element_bytes) for mixer in mixers)
    return SequenceState(kv_dtype, constant, segments[0].bytes_per_token, segments)


def cache_element_bytes(kv_dtype: str) -> int:
    """Bytes an element of the cache; BadInputError for a dtype that is no cache dtype."""
    if kv_dtype not in CACHE_DTYPE_BYTES:
        raise BadInputError(f"{kv_dtype} is no cache dtype.", remedy=f"Take one of {', '.join(CACHE_DTYPE_BYTES)}.")
    return CACHE_DTYPE_BYTES[kv_dtype]


def growth_of(mixer: Mixer, tp: int = 1) -> Iterator[Growth]:
    """How one mixer's cache grows on one of tp ranks.

    MHA, GQA and MQA keep kv_heads × (key + value width) elements a token, a whole head at least on each rank; MLA keeps its
    latent and the rotary key once, whatever the heads and ranks (DeepSeek-V2, arXiv 2405.04434, section 2.1); an indexer keeps
    one key of its own. A compressed mixer keeps single keys that are values too: those of its window, and one for each
    `compression` tokens, with an indexer key beside it (tokens not compressed yet: see constant_bytes_of). Linear attention and
    state-space mixers do not grow.
    """
    if not mixer.cached or not mixer.causal or mixer.recurrence is not None:
        return
    index = Fraction(mixer.indexer.head_dim if mixer.indexer else 0)
    if mixer.kind == "attention.compressed":
        width = Fraction(mixer.head_dim or 0)
        yield width, mixer.window_tokens
        if mixer.compression:
            yield (width + index) / mixer.compression, None
        return
    if mixer.kv_lora_rank is not None:
        own = mixer.kv_lora_rank + (mixer.rope_head_dim or 0)
    else:
        heads = mixer.kv_heads or 0
        own = -(-heads // tp) * ((mixer.head_dim or 0) + (mixer.value_head_dim or 0))
    yield Fraction(own), mixer.window_tokens or mixer.chunk_tokens
    if index:
        yield index, None


def constant_bytes_of(mixer: Mixer, tp: int, element_bytes: int) -> int:
    """What one sequence keeps in a mixer on one of tp ranks whatever its length.

    A recurrent mixer: the state in its own dtype, the short convolution's last inputs in the cache's. A compressed mixer: keys
    and gates of the tokens that do not fill an entry yet; with an indexer entries overlap, so that tokens have two series of
    both, for the key and for the indexer's, and the last entry's tokens stay (DeepSeek-V4's report, section 2.3).
    """
    state = mixer.recurrence
    if state is not None:
        elements = -(-state.heads // tp) * state.key_dim * state.value_dim
        inputs = -(-state.conv_channels // tp) * max(0, state.conv_kernel - 1)
        return elements * CACHE_DTYPE_BYTES.get(state.state_dtype, 4) + inputs * element_bytes
    if not mixer.compression or not mixer.cached:
        return 0
    waiting, width = mixer.compression - 1, mixer.head_dim or 0
    if mixer.indexer is None:
        return 2 * waiting * width * element_bytes
    return 2 * (2 * waiting + mixer.compression) * (width + mixer.indexer.head_dim) * element_bytes


def bytes_at(state: SequenceState, tokens: int) -> int | None:
    """State of one sequence of that many tokens; None when it is unknown."""
    if state.bytes_per_token is None or state.constant_bytes is None:
        return None
    total = state.constant_bytes
    ends = [segment.from_token for segment in state.segments[1:]]
    for segment, end in zip(state.segments, [*ends, tokens], strict=True):
        total += max(0, min(end, tokens) - segment.from_token) * segment.bytes_per_token
    return total


def cached_bytes(layers: Iterable[Layer], tokens: int, tp: int, element_bytes: int) -> int:
    """State of one sequence in these layers on one of tp ranks."""
    total = 0
    for mixer in (mixer for layer in layers for mixer in layer.mixers):
        grown = sum((cost * min(tokens, limit or tokens) for cost, limit in growth_of(mixer, tp)), Fraction(0))
        total += ceil(grown * element_bytes) + constant_bytes_of(mixer, tp, element_bytes)
    return total
