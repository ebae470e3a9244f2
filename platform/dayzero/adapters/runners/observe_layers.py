"""LAYERS: each decoder layer three ways, given the reference's input, and with what each run brought to it itself.

Memory: the native weights once (the target shares them) and one widened layer at a time.
"""

import time
from typing import Any

import torch

from dayzero.adapters.runners import loading, routing
from dayzero.adapters.runners.bridge_making import install
from dayzero.adapters.runners.figures import dtype_name, finite, rows, tensor_error
from dayzero.adapters.runners.placing import device_for, fetched, placed
from dayzero.adapters.runners.suspects import look_inside
from dayzero.adapters.runners.three_ways import (
    Target,
    compile_target,
    layer_calls,
    make_target,
    reference_dtype,
    run_layer,
    run_wide,
    widened,
)
from dayzero.domain.observations import LayerError, LayerErrors, ModuleError
from dayzero.domain.runs import RunRequest
from dayzero.stages.precision import limits as precision

TOKENS = 96


def observe_layers(request: RunRequest) -> LayerErrors:
    """All layers on the packaged text's first tokens."""
    began = time.monotonic()
    loading.quiet()
    folder = loading.model_folder(request)
    config = loading.read_config(folder)
    dtype = loading.native_dtype(config, request.dtype)
    given = loading.text_tokens(folder, config, loading.packaged_text()[1], loading.option_int(request, "tokens", TOKENS, 2))
    device = device_for(request)
    install(request.bridges, device)
    native = loading.load_model(folder, dtype)
    patched = make_target(native, device)
    with loading.plugins_installed(patched, request) as replaced:
        target = compile_target(native, patched, request, layer_calls(patched, placed(given.ids, device), dtype))
        run = _Run(native, target, given.ids, dtype, dict(replaced))
        layers = tuple(run.layer(index) for index in range(len(target.layers)))
    return LayerErrors(
        dtype_name(dtype),
        dtype_name(run.wide_dtype),
        target.path,
        target.reference_path,
        given.ids.shape[1],
        given.source,
        layers,
        tuple(run.suspects),
        request.custom_operators,
        time.monotonic() - began,
    )


class _Run:
    """The state that the three chains carry from layer to layer."""

    def __init__(self, native: Any, target: Target, ids: torch.Tensor, dtype: torch.dtype, replaced: dict[str, str]) -> None:
        self.dtype, self.wide_dtype = dtype, reference_dtype(dtype)
        self.path, self.native_layers = loading.decoder_layers(native)
        _, self.target_modules = loading.decoder_layers(target.model)
        self.target_layers = target.layers
        self.replaced = replaced
        self.at_wide, self.wide_kwargs = layer_calls(native, ids, self.wide_dtype)
        self.at_native, self.native_kwargs = layer_calls(native, ids, dtype)
        self.device = next(target.model.parameters()).device
        self.at_target, self.target_kwargs = layer_calls(target.model, placed(ids, self.device), dtype)
        self.suspects: list[ModuleError] = []

    def layer(self, index: int) -> LayerError:
        """Run one layer all ways, move the chains on, and look inside when it stands out."""
        wide_layer = widened(self.native_layers[index], self.wide_dtype)
        native_layer, target_layer = self.native_layers[index], self.target_layers[index]
        kwargs = self.wide_kwargs[index], self.native_kwargs[index], self.target_kwargs[index]
        given = self.at_wide.to(self.dtype)
        exact_given = given.to(self.wide_dtype)
        records = routing.RouterRecord(wide_layer), routing.RouterRecord(native_layer)
        exact = run_wide(wide_layer, exact_given, kwargs[0])
        by_native = run_layer(native_layer, given, kwargs[1])
        for record in records:
            record.close()
        by_target = fetched(run_layer(target_layer, placed(given, self.device), kwargs[2]))
        skip = routing.undecided(wide_layer, records[0], records[1], self.dtype, given.shape[1])
        self._advance(index, wide_layer, kwargs)
        error = self._error(index, (given, exact, by_native, by_target), skip)
        if precision.layer_line(error, dtype_name(self.dtype)).stands_out:
            modules = native_layer, self.target_modules[index], wide_layer
            self.suspects += look_inside(index, error.module, modules, (given, kwargs[1]), self.replaced, self.device)
        return error

    def _advance(self, index: int, wide_layer: Any, kwargs: tuple[dict[str, Any], ...]) -> None:
        self.at_wide = run_wide(wide_layer, self.at_wide, kwargs[0])
        self.at_native = run_layer(self.native_layers[index], self.at_native, kwargs[1])
        self.at_target = run_layer(self.target_layers[index], self.at_target, kwargs[2])

    def _error(self, index: int, tensors: tuple[torch.Tensor, ...], skip: torch.Tensor) -> LayerError:
        given, exact, by_native, by_target = tensors
        base = rows(given)
        # Architectures that carry several streams a token have as many rows for it.
        keep = (~skip).repeat_interleave(base.shape[0] // skip.shape[0])
        update = rows(exact) - base
        native_update, target_update = rows(by_native) - base, rows(by_target) - base
        return LayerError(
            index,
            f"{self.path}.{index}",
            tensor_error(target_update, update, keep),
            tensor_error(native_update, update, keep),
            tensor_error(by_target, exact, keep),
            tensor_error(by_native, exact, keep),
            _ratio_max(target_update, native_update, update, base, keep, dtype_name(self.dtype)),
            tensor_error(fetched(self.at_target), self.at_wide),
            tensor_error(self.at_native, self.at_wide),
            bool(torch.equal(by_target, by_native)),
            given.shape[1],
            int(skip.sum()),
        )


def _ratio_max(
    target: torch.Tensor, native: torch.Tensor, exact: torch.Tensor, base: torch.Tensor, keep: torch.Tensor, dtype: str
) -> float | None:
    """The largest element error over max(largest native error of its row, k · eps · rms of the row's output)."""
    if not bool(keep.any()):
        return None
    error, native_error = (target - exact)[keep].abs(), (native - exact)[keep].abs().amax(-1)
    floor = precision.K * precision.EPS[dtype] * (exact + base)[keep].pow(2).mean(-1).sqrt()
    return finite(float((error.amax(-1) / torch.maximum(native_error, floor).clamp_min(1e-300)).max()))
