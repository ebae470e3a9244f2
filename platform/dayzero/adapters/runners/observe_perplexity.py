"""PERPLEXITY: likelihood of the packaged text in higher precision, in native dtype and on the target, token by token."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.agreement import agreement, divergence
from dayzero.adapters.runners.baseline_files import recorded_logits
from dayzero.adapters.runners.bridge_making import install
from dayzero.adapters.runners.figures import dtype_name, finite, standard_error
from dayzero.adapters.runners.heads import heads_of
from dayzero.adapters.runners.layer_sources import LayerSource, open_source
from dayzero.adapters.runners.placing import device_for, fetched, placed
from dayzero.adapters.runners.three_ways import (
    Call,
    Target,
    compile_target,
    layer_calls,
    make_target,
    reference_dtype,
    run_layer,
    run_target,
    run_wide,
    widened,
)
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
    given, windows = perplexity_windows(request, folder, config)
    device = device_for(request)
    install(request.bridges, device)
    source = open_source(request, folder, config, dtype)
    patched = make_target(source, device)
    with loading.plugins_installed(patched, request):
        target = compile_target(source, patched, request, device)
        recorded = recorded_logits(request, windows, dtype)
        logits = _three_ways(source, target, windows, dtype, None if recorded is None else recorded[1])
    figures = [_figures(ids, *three) for ids, three in zip(windows, logits, strict=True)]
    columns = [torch.cat(parts) for parts in zip(*figures, strict=True)]
    nll_wide, nll_native, nll_target, kl_native, kl_target, agree = columns
    difference = nll_target - nll_native
    return PerplexityObserved(
        loading.packaged_text()[0],
        given.source,
        difference.numel(),
        dtype_name(dtype),
        dtype_name(reference_dtype(dtype)),
        target.path,
        finite(float(nll_wide.mean())),
        finite(float(nll_native.mean())),
        finite(float(nll_target.mean())),
        finite(float(difference.mean())),
        standard_error(difference),
        finite(float(kl_native.mean())),
        finite(float(kl_target.mean())),
        float(agree.mean()),
        all(torch.equal(three[1], three[2]) for three in logits),
        request.custom_operators,
        time.monotonic() - began,
        source.told(),
        None if recorded is None else recorded[0],
        standard_error(nll_target),
        agreement(*zip(*logits, strict=True)),
    )


def perplexity_windows(request: RunRequest, folder: Path, config: Any) -> tuple[loading.TokenInput, list[torch.Tensor]]:
    """The packaged text's first tokens, and the windows [1, tokens] that they are judged in."""
    length = loading.option_int(request, "tokens", TOKENS, 2)
    count = length * loading.option_int(request, "windows", WINDOWS)
    given = loading.text_tokens(folder, config, loading.packaged_text()[1], count)
    return given, [part for part in given.ids.split(length, dim=1) if part.shape[1] == length] or [given.ids]


def _three_ways(
    source: LayerSource,
    target: Target,
    windows: list[torch.Tensor],
    dtype: torch.dtype,
    recorded: Mapping[str, torch.Tensor] | None,
) -> list[tuple[torch.Tensor, ...]]:
    """For each window logits [tokens, vocabulary] of the higher precision, the native dtype and the target."""
    ours = _Chains([layer_calls(target.model, placed(ids, target.device), dtype) for ids in windows])
    run = partial(run_target, source)
    if recorded is None:
        exact, native = reference_logits(source, windows, dtype, lambda index: ours.advance(index, target.layers[index], run))
    else:
        exact, native = ([recorded[f"{at}.{kind}"] for at in range(len(windows))] for kind in ("wide", "native"))
        for index in range(source.count):
            with source.layer(index):
                ours.advance(index, target.layers[index], run)
    targets = [fetched(one) for one in heads_of(target.model, ours.hidden)]
    return list(zip(exact, native, targets, strict=True))


def reference_logits(
    source: LayerSource, windows: list[torch.Tensor], dtype: torch.dtype, beside: Callable[[int], None] = lambda index: None
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Logits of each window in higher precision and in native dtype; each layer is read once for all.

    `beside` is called while the source has a layer. A model in memory answers in native dtype as a whole, by its own forward.
    """
    wide_dtype, streamed = reference_dtype(dtype), source.told().streamed
    wide = _Chains([layer_calls(source.model, ids, wide_dtype) for ids in windows])
    native = _Chains([layer_calls(source.model, ids, dtype) for ids in windows])
    for index in range(source.count):
        with source.layer(index) as layer:
            wide.advance(index, widened(layer, wide_dtype), run_wide)
            if streamed:
                native.advance(index, layer, run_layer)
            beside(index)
    exact = heads_of(source.model, wide.hidden)
    if streamed:
        return exact, heads_of(source.model, native.hidden)
    with torch.no_grad():
        return exact, [source.model(ids, use_cache=False).logits[0] for ids in windows]


class _Chains:
    """Hidden states of several inputs on their way through the layers."""

    def __init__(self, calls: list[Call]) -> None:
        self.hidden = [first for first, _ in calls]
        self.kwargs = [kwargs for _, kwargs in calls]

    def advance(self, index: int, layer: Any, run: Callable[[Any, torch.Tensor, dict[str, Any]], torch.Tensor]) -> None:
        """One layer on."""
        self.hidden = [run(layer, states, each[index]) for states, each in zip(self.hidden, self.kwargs, strict=True)]


def _figures(ids: torch.Tensor, *logits: torch.Tensor) -> tuple[torch.Tensor, ...]:
    wide, native, target = (part[:-1].to(torch.float64).log_softmax(-1) for part in logits)
    following = ids[0, 1:, None]
    nlls = [-part.gather(-1, following)[:, 0] for part in (wide, native, target)]
    kls = [divergence(wide, part) for part in (native, target)]
    return (*nlls, *kls, (wide.argmax(-1) == target.argmax(-1)).to(torch.float64))


def likelihoods(ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """Negative log-likelihood of each token but the first, in nats."""
    found: torch.Tensor = -logits[:-1].to(torch.float64).log_softmax(-1).gather(-1, ids[0, 1:, None])[:, 0]
    return found
