"""What cached decoding observed: facts in figures, never verdicts."""

from dataclasses import dataclass

from dayzero.domain.observations import ModuleError, PartError, PathReach, TensorError


@dataclass(frozen=True, slots=True)
class DecodeLayerError:
    """One layer at the positions behind the prompt, given the reference's inputs, against the higher precision without a cache.

    `target` decodes with the cache that its own prefill filled, `on_reference_cache` with the one that the native reference's
    filled (None: it cannot be handed over); `native` is the native reference's own cached decoding. Errors are those of the
    layer's update. `identical`: the target's output equals the native reference's bit for bit.
    """

    index: int
    module: str
    target: TensorError
    on_reference_cache: TensorError | None
    native: TensorError
    identical: bool
    tokens: int
    tokens_excluded: int = 0


@dataclass(frozen=True, slots=True)
class DecodeErrors:
    """All layers in cached decoding: a prefill of `prompt_tokens`, one chunk of several tokens behind it, then single ones.

    `parts` are what stands outside of the layers, at positions above zero. `chunk_not_judged` says why nothing is
    known of several tokens behind a cache, where the native reference cannot have them; the chunk is one token then.
    """

    native_dtype: str
    reference_dtype: str
    target_path: str
    reference_path: str
    prompt_tokens: int
    chunk_tokens: int
    steps: int
    token_source: str
    layers: tuple[DecodeLayerError, ...]
    parts: tuple[PartError, ...] = ()
    suspects: tuple[ModuleError, ...] = ()
    paths: tuple[PathReach, ...] = ()
    custom_operators: tuple[str, ...] = ()
    observed_s: float = 0.0
    chunk_not_judged: str | None = None
    not_run_because: str | None = None
