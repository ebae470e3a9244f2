"""What one sequence keeps in the cache: exact bytes a token, with the steps where windows are full."""

from collections.abc import Iterable, Mapping

from dayzero.domain.architecture import Layer, Mixer, SequenceState, StateSegment
from dayzero.errors import BadInputError

CACHE_DTYPE_BYTES: Mapping[str, int] = {
    "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1, "fp8": 1, "int8": 1,
}  # fmt: skip
"""Bytes an element, by cache dtype."""


def state_of(layers: tuple[Layer, ...] | None, kv_dtype: str) -> SequenceState:
    """The state of one sequence; numbers are None when the layers are unknown (None). BadInputError: unknown dtype.

    MHA, GQA and MQA keep kv_heads × (key width + value width) elements a token and layer; MLA keeps its latent and the
    rotary key once, whatever the heads (DeepSeek-V2, arXiv 2405.04434, section 2.1).
    """
    element_bytes = cache_element_bytes(kv_dtype)
    if layers is None:
        return SequenceState(kv_dtype, None, None)
    costs = [(token_elements(layer.mixer) * element_bytes, layer.mixer.window_tokens) for layer in layers]
    steps = sorted({0, *(window for _, window in costs if window is not None)})
    segments = tuple(
        StateSegment(step, sum(cost for cost, window in costs if window is None or window > step)) for step in steps
    )
    return SequenceState(kv_dtype, 0, segments[0].bytes_per_token, segments)


def cache_element_bytes(kv_dtype: str) -> int:
    """Bytes an element of the cache; BadInputError for a dtype that is no cache dtype."""
    if kv_dtype not in CACHE_DTYPE_BYTES:
        raise BadInputError(f"{kv_dtype} is no cache dtype.", remedy=f"Take one of {', '.join(CACHE_DTYPE_BYTES)}.")
    return CACHE_DTYPE_BYTES[kv_dtype]


def token_elements(mixer: Mixer, tp: int = 1) -> int:
    """Elements that one token adds to one layer's cache on one of tp ranks; MLA's latent is on each of them whole."""
    if mixer.kv_lora_rank is not None:
        return mixer.kv_lora_rank + (mixer.rope_head_dim or 0)
    return (mixer.kv_heads or 0) // tp * ((mixer.head_dim or 0) + (mixer.value_head_dim or 0))


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
    return sum(
        token_elements(layer.mixer, tp) * element_bytes * min(tokens, layer.mixer.window_tokens or tokens) for layer in layers
    )
