"""PERPLEXITY: likelihood of the packaged text in higher precision, in native dtype and on the target, token by token."""

import time
from typing import Any

import torch

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.bridge_making import install
from dayzero.adapters.runners.figures import dtype_name, finite
from dayzero.adapters.runners.heads import head_logits, wide_logits_each
from dayzero.adapters.runners.placing import device_for, fetched, placed
from dayzero.adapters.runners.three_ways import Target, compile_target, layer_calls, make_target, reference_dtype, run_layer
from dayzero.domain.observations import PerplexityObserved
from dayzero.domain.runs import RunRequest

TOKENS = 96
WINDOWS = 3


def observe_perplexity(request: RunRequest) -> PerplexityObserved:
    """Windows of `tokens` tokens (all but the first of each are judged), each with nothing before it.

    Windows have LAYERS' default length, so that what it compiled is found in the compiler's cache.
    """
    began = time.monotonic()
    loading.quiet()
    folder = loading.model_folder(request)
    config = loading.read_config(folder)
    dtype = loading.native_dtype(config, request.dtype)
    length = loading.option_int(request, "tokens", TOKENS, 2)
    name, text = loading.packaged_text()
    given = loading.text_tokens(folder, config, text, length * loading.option_int(request, "windows", WINDOWS))
    windows = [part for part in given.ids.split(length, dim=1) if part.shape[1] == length] or [given.ids]
    device = device_for(request)
    install(request.bridges, device)
    native = loading.load_model(folder, dtype)
    patched = make_target(native, device)
    with loading.plugins_installed(patched, request):
        target = compile_target(native, patched, request, layer_calls(patched, placed(windows[0], device), dtype))
        exact = wide_logits_each(native, windows, reference_dtype(dtype))
        logits = [(wide, *_two(native, target, ids, dtype)) for wide, ids in zip(exact, windows, strict=True)]
    figures = [_figures(ids, *three) for ids, three in zip(windows, logits, strict=True)]
    columns = [torch.cat(parts) for parts in zip(*figures, strict=True)]
    nll_wide, nll_native, nll_target, kl_native, kl_target, agree = columns
    difference = nll_target - nll_native
    count = difference.numel()
    return PerplexityObserved(
        name,
        given.source,
        count,
        dtype_name(dtype),
        dtype_name(reference_dtype(dtype)),
        target.path,
        finite(float(nll_wide.mean())),
        finite(float(nll_native.mean())),
        finite(float(nll_target.mean())),
        finite(float(difference.mean())),
        finite(float(difference.std() / count**0.5)) if count > 1 else None,
        finite(float(kl_native.mean())),
        finite(float(kl_target.mean())),
        float(agree.mean()),
        all(torch.equal(three[1], three[2]) for three in logits),
        request.custom_operators,
        time.monotonic() - began,
    )


def _two(native: Any, target: Target, ids: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits [tokens, vocabulary] of the native dtype and of the target."""
    with torch.no_grad():
        plain = native(ids, use_cache=False).logits[0]
    device = next(target.model.parameters()).device
    hidden, kwargs = layer_calls(target.model, placed(ids, device), dtype)
    for layer, given in zip(target.layers, kwargs, strict=True):
        hidden = run_layer(layer, hidden, given)
    return plain, fetched(head_logits(target.model, hidden))


def _figures(ids: torch.Tensor, *logits: torch.Tensor) -> tuple[torch.Tensor, ...]:
    wide, native, target = (part[:-1].to(torch.float64).log_softmax(-1) for part in logits)
    following = ids[0, 1:, None]
    nlls = [-part.gather(-1, following)[:, 0] for part in (wide, native, target)]
    kls = [(wide.exp() * (wide - part)).sum(-1) for part in (native, target)]
    return (*nlls, *kls, (wide.argmax(-1) == target.argmax(-1)).to(torch.float64))
