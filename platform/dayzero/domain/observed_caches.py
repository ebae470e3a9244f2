"""What a quantized cache does to a model's answers. A figure that is not finite is None."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CacheFormatError:
    """One format of the cache against the native one, on the same tokens: KL divergence (nats a token) and the paired
    difference of likelihood, each with its standard error over positions, and the shares of positions with the same likeliest
    token and of common tokens among the five likeliest.

    `largest_scale` None: no scale was used; `clipped_share` is that of written elements beyond the scale;
    `readback_error` is ‖read − written‖ / ‖written‖ of the worst keys or values of a layer. `identical`: bit for
    bit the native logits.
    """

    format: str
    tokens: int
    kl: float | None
    kl_standard_error: float | None
    difference: float | None
    difference_standard_error: float | None
    top1_agreement: float
    top5_agreement: float
    largest_scale: float | None
    clipped_share: float
    readback_error: float | None
    identical: bool


@dataclass(frozen=True, slots=True)
class CachesObserved:
    """Teacher-forced decoding after a prefill, token by token, with each format of the cache. `unable` says why a model has
    none (no formats then); `note` what part of its state stays native."""

    native_dtype: str
    target_path: str
    text: str
    token_source: str
    windows: int
    prefill_tokens: int
    cached_layers: int
    formats: tuple[CacheFormatError, ...]
    nll_native: float | None
    unable: str | None = None
    note: str | None = None
    custom_operators: tuple[str, ...] = ()
    observed_s: float = 0.0
