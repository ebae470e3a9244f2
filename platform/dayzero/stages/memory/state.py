"""What the cache of one sequence takes on a rank: pages, windows, shares of context parallelism, and its dtype."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from dayzero.domain.architecture import Layer, ModelSpec
from dayzero.domain.planning import Choices, Degrees
from dayzero.stages.memory.state_of_sequence import CACHE_DTYPE_BYTES, cache_element_bytes, constant_bytes_of, growth_of


@dataclass(frozen=True, slots=True)
class CacheShape:
    """How a rank keeps a sequence: of `tokens` in all, in pages, cut by tp and cp. Recurrent state is padded to whole units of
    `unit_bytes` (0: it is not)."""

    tokens: int
    tp: int
    cp: int
    page_tokens: int
    element_bytes: int
    unit_bytes: int = 0


def cache_dtype_of(spec: ModelSpec) -> str:
    """The dtype of a cache that nobody chose: the model's native one, in which keys and values are computed."""
    native = spec.native_dtype
    return native if native is not None and native in CACHE_DTYPE_BYTES else spec.state.dtype


def cache_shape(tokens: int, degrees: Degrees, choices: Choices, native_dtype: str) -> CacheShape:
    """The shape for a plan; BadInputError for a dtype that is no cache dtype."""
    element_bytes = cache_element_bytes(choices.cache_dtype or native_dtype)
    return CacheShape(tokens, degrees.tp, degrees.cp, max(1, choices.page_tokens), element_bytes)


def hybrid_pages(layers: Sequence[Layer], shape: CacheShape) -> CacheShape:
    """The shape where attention and recurrent layers share one pool of pages: as a page of either must be as large as one of
    the other, an engine lengthens attention's pages until one holds a layer's recurrent state, and pads the state to it. In
    vLLM (_align_hybrid_block_size) align × ⌈state / (align × a token)⌉: 544 tokens for Qwen3-Next's 16-bit state. Without
    pages nothing changes."""
    if shape.page_tokens == 1:
        return shape
    mixers = [mixer for layer in layers for mixer in layer.mixers]
    state = max((constant_bytes_of(mixer, shape.tp, shape.element_bytes) for mixer in mixers if mixer.recurrence), default=0)
    token = max((cost for mixer in mixers for cost, limit in growth_of(mixer, shape.tp) if limit is None), default=0)
    if not state or not token:
        return shape
    times = ceil(state / (shape.page_tokens * token * shape.element_bytes))
    pages = times * shape.page_tokens
    return replace(shape, page_tokens=pages, unit_bytes=ceil(pages * token * shape.element_bytes))


def kept_tokens(shape: CacheShape, limit: int | None) -> int:
    """Tokens that a rank keeps room for. A window that slides over pages touches one page more than it fills, for it may
    begin anywhere in a page; cp ranks share the tokens of a sequence evenly (assumed for windows too: any rank may hold the
    newest tokens, so a window is not divided)."""
    share = -(-shape.tokens // shape.cp)
    page = shape.page_tokens
    whole = -(-share // page) * page
    if limit is None or share <= limit:
        return whole
    return min(whole, (-(-(limit - 1) // page) + 1) * page)


def sequence_bytes(layer: Layer, shape: CacheShape) -> int:
    """State of one sequence in one layer on one rank: what grows, by pages, and what does not.

    Compressed caches hold whole entries. Recurrent state is whole on each cp rank, which passes it on to the next one.
    """
    total = 0
    for mixer in layer.mixers:
        grown = Fraction(0)
        for cost, limit in growth_of(mixer, shape.tp):
            tokens = kept_tokens(shape, limit)
            entry = mixer.compression if mixer.compression and limit is None else 1
            grown += cost * (tokens // entry * entry)
        constant = constant_bytes_of(mixer, shape.tp, shape.element_bytes)
        if shape.unit_bytes and mixer.recurrence is not None:
            constant = -(-constant // shape.unit_bytes) * shape.unit_bytes
        total += ceil(grown * shape.element_bytes) + constant
    return total
