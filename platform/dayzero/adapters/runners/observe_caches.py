"""CACHES: the packaged text decoded token by token, teacher-forced, with quantized caches and with the native one.

Both run the same model on the same kernels: the only difference is what the cache holds. Option `ignore_scale` plants the fault
that a check of caches must see; `tokens` is a window's length, `windows` how many are decoded side by side.
"""

import inspect
import time
from typing import Any

import torch
from transformers import DynamicCache

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.agreement import divergence, overlap
from dayzero.adapters.runners.bridge_making import install
from dayzero.adapters.runners.figures import dtype_name, finite, standard_error
from dayzero.adapters.runners.placing import device_for, fetched, on, placed
from dayzero.adapters.runners.quantized_cache import FORMATS, QuantizedLayers, holds_keys
from dayzero.adapters.runners.three_ways import make_target, path_of
from dayzero.domain.observed_caches import CacheFormatError, CachesObserved
from dayzero.domain.runs import RunRequest

TOKENS, WINDOWS = 48, 4
NO_CACHE = "it keeps no keys and values in the library's dynamic cache"


def observe_caches(request: RunRequest) -> CachesObserved:
    """Windows of `tokens` tokens; the first half is prefilled, the other half decoded. A model without an ordinary cache of
    keys and values says why."""
    began = time.monotonic()
    loading.quiet()
    folder = loading.model_folder(request)
    config = loading.read_config(folder)
    dtype = loading.native_dtype(config, request.dtype)
    length = loading.option_int(request, "tokens", TOKENS, 4)
    name, text = loading.packaged_text()
    given = loading.text_tokens(folder, config, text, length * loading.option_int(request, "windows", WINDOWS))
    parts = [part for part in given.ids.split(length, dim=1) if part.shape[1] == length] or [given.ids]
    device = device_for(request)
    install(request.bridges, device)
    model = make_target(loading.load_model(folder, dtype), device)
    ids, prefill = placed(torch.cat(parts), device), parts[0].shape[1] // 2
    path = f"eager, cached decoding, {path_of(model)}{on(device)}"
    with loading.plugins_installed(model, request):
        layers, unable, note = _ordinary(model, ids)
        formats: tuple[CacheFormatError, ...] = ()
        nll = None
        if unable is None:
            native = _decoded(model, ids, prefill, _cache(model))
            nll = finite(float(_likelihoods(native, ids, prefill).mean()))
            ignored = request.options.get("ignore_scale") is True
            formats = tuple(_format(model, ids, prefill, native, kind, ignored) for kind in FORMATS)
    return CachesObserved(
        dtype_name(dtype),
        path,
        name,
        given.source,
        len(parts),
        prefill,
        layers,
        formats,
        nll,
        unable,
        note,
        request.custom_operators,
        time.monotonic() - began,
    )


def _cache(model: Any) -> Any:
    return DynamicCache(config=model.config)


def _named(model: Any, cache: Any) -> dict[str, Any]:
    """The cache under the name that this release of the library gives it."""
    return {"cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values": cache}


def _ordinary(model: Any, ids: torch.Tensor) -> tuple[int, str | None, str | None]:
    """How many layers keep plain keys and values, why the model has no ordinary cache (None: it has), what stays native."""
    if getattr(model.config.get_text_config(), "kv_lora_rank", None):
        return 0, "its engines cache the latent of its attention, the library expanded keys and values of every head", None
    cache = _cache(model)
    try:
        with torch.no_grad():
            model(input_ids=ids[:1, :2], use_cache=True, **_named(model, cache))
    except (TypeError, ValueError, AttributeError, RuntimeError, IndexError, NotImplementedError) as error:
        return 0, f"{NO_CACHE} ({type(error).__name__})", None
    used = [layer for layer in cache.layers if holds_keys(layer) and layer.get_seq_length() == 2]
    other = len(cache.layers) - len(used)
    if not used:
        return 0, NO_CACHE, None
    return len(used), None, f"the state of {other} other layers stays native" if other else None


def _decoded(model: Any, ids: torch.Tensor, prefill: int, cache: Any) -> torch.Tensor:
    """Logits [windows, tokens, vocabulary] of every token after the prefill, each predicted with what the cache holds."""
    rows, named = [], _named(model, cache)
    with torch.no_grad():
        model(input_ids=ids[:, :prefill], use_cache=True, **named)
        for at in range(prefill, ids.shape[1] - 1):
            out = model(input_ids=ids[:, at : at + 1], use_cache=True, **named)
            rows.append(fetched(out.logits[:, -1]).to(torch.float64))
    return torch.stack(rows, dim=1)


def _likelihoods(logits: torch.Tensor, ids: torch.Tensor, prefill: int) -> torch.Tensor:
    """Negative log-likelihood of each decoded token's successor, in nats [windows, tokens]."""
    following = fetched(ids)[:, prefill + 1 :, None]
    return -logits.log_softmax(-1).gather(-1, following)[..., 0]


def _format(model: Any, ids: torch.Tensor, prefill: int, native: torch.Tensor, kind: str, ignored: bool) -> CacheFormatError:
    cache = _cache(model)
    layers = QuantizedLayers(cache, kind, ignored)
    ours = _decoded(model, ids, prefill, cache)
    left, right = native.log_softmax(-1), ours.log_softmax(-1)
    kl = divergence(left, right)
    difference = _likelihoods(ours, ids, prefill) - _likelihoods(native, ids, prefill)
    return CacheFormatError(
        kind,
        kl.numel(),
        finite(float(kl.mean())),
        standard_error(kl),
        finite(float(difference.mean())),
        standard_error(difference),
        float((native.argmax(-1) == ours.argmax(-1)).to(torch.float64).mean()),
        overlap(ours, native, min(5, native.shape[-1])),
        None if ignored else layers.largest_scale(),
        layers.clipped_share(),
        finite(layers.readback_error()),
        bool(torch.equal(ours, native)),
    )
