"""OPERATORS: every distinct operator of a prefill and a decode step, on its real inputs, against float64."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.bridge_making import install
from dayzero.adapters.runners.call_sampler import CallSampler
from dayzero.adapters.runners.figures import dtype_name
from dayzero.adapters.runners.operator_capture import OperatorCapture
from dayzero.adapters.runners.placing import device_for, placed
from dayzero.domain.observations import OperatorErrors
from dayzero.domain.runs import RunRequest

PROMPT_TOKENS = 13


@contextmanager
def module_paths(model: Any) -> Iterator[list[str]]:
    """The path of the module that runs now, on top of the yielded stack."""
    stack: list[str] = [""]
    handles = []
    for name, module in model.named_modules():
        if name:
            handles.append(module.register_forward_pre_hook(lambda _module, _args, name=name: stack.append(name)))
            handles.append(module.register_forward_hook(lambda _module, _args, _out: (stack.pop(), None)[1], always_call=True))
    try:
        yield stack
    finally:
        for handle in handles:
            handle.remove()


def observe_operators(request: RunRequest) -> OperatorErrors:
    """Run prefill and one decode step of the target eagerly, comparing each distinct operator call on the way; what the
    request does not know is also run on drawn inputs."""
    began = time.monotonic()
    loading.quiet()
    folder = loading.model_folder(request)
    config = loading.read_config(folder)
    dtype = loading.native_dtype(config, request.dtype)
    tokens = loading.option_int(request, "tokens", PROMPT_TOKENS, least=2)
    _, text = loading.packaged_text()
    given = loading.text_tokens(folder, config, text, tokens)
    device = device_for(request)
    install(request.bridges, device)
    model = placed(loading.load_model(folder, dtype, attention="sdpa", experts="grouped_mm"), device)
    ids = placed(given.ids, device)
    with loading.plugins_installed(model, request) as replaced, module_paths(model) as stack, torch.no_grad():
        known = {fact.key: fact for fact in request.known_calls}
        seed, natives = (loading.option_int(request, name, 0, least=0) for name in ("sample_seed", "sample_natives"))
        sampler = CallSampler(device, known, seed, natives > 0)
        capture = OperatorCapture(given.ids.shape[1], lambda: stack[-1], replaced, request.bridges, sampler)
        with capture:
            cache = _cache(model(ids, use_cache=True))
            if cache is not None:
                model(ids[:, -1:], use_cache=True, **cache)
    return OperatorErrors(
        dtype_name(dtype),
        f"eager, attention {model.config._attn_implementation}, as dispatched on {request.platform}",
        given.ids.shape[1],
        tuple(capture.seen.values()),
        request.custom_operators,
        time.monotonic() - began,
        tuple(sampler.found),
        tuple(sampler.used),
        dict(sampler.left_out),
    )


def _cache(output: Any) -> dict[str, Any] | None:
    """The keyword that hands an output's cache to the next step (the library renamed it once)."""
    for name in ("cache", "past_key_values", "cache_params"):
        value = output.get(name) if hasattr(output, "get") else None
        if value is not None:
            return {name: value}
    return None
