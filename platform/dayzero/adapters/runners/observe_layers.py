"""LAYERS: each decoder layer three ways, given the reference's input, and with what each run brought to it itself.

Memory: the native weights once (the target shares them), or one layer's where they are streamed, and one widened layer.
"""

import time
from pathlib import Path
from typing import Any

import torch

from dayzero.adapters.runners import loading, outer_parts, reaching
from dayzero.adapters.runners.baseline_files import recorded_layers
from dayzero.adapters.runners.bridge_making import install
from dayzero.adapters.runners.figures import dtype_name, finite, rows, tensor_error, tokens_of
from dayzero.adapters.runners.layer_sources import LayerSource, open_source
from dayzero.adapters.runners.placing import device_for, fetched, placed
from dayzero.adapters.runners.references import LayerReference, References
from dayzero.adapters.runners.suspects import look_inside
from dayzero.adapters.runners.three_ways import Target, compile_target, make_target, run_target, widened
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
    given = layers_input(request, folder, config)
    recorded = recorded_layers(request, given.ids, dtype)
    device = device_for(request)
    install(request.bridges, device)
    source = open_source(request, folder, config, dtype)
    patched = make_target(source, device, str(request.options.get("kernels", "fused")))
    with loading.plugins_installed(patched, request) as replaced:
        target = compile_target(source, patched, request, device)
        run = ThreeWays(source, target, References(source, given.ids, dtype, recorded), given.ids, dict(replaced))
        layers = tuple(run.layer(index) for index in range(len(target.layers)))
        parts = (*run.parts, *outer_parts.after_layers(source.model, target.model, run.references.at_wide, dtype))
    return LayerErrors(
        dtype_name(dtype),
        dtype_name(run.references.wide_dtype),
        target.path,
        target.reference_path,
        given.ids.shape[1],
        given.source,
        layers,
        tuple(run.suspects),
        request.custom_operators,
        time.monotonic() - began,
        source.told(),
        recorded.name if recorded is not None and recorded.used else None,
        parts,
        reaching.paths_of(config, given.ids.shape[1]),
    )


def layers_input(request: RunRequest, folder: Path, config: Any) -> loading.TokenInput:
    """The packaged text's first tokens; by default enough to go beyond every window that is not too long for it."""
    tokens = loading.option_int(request, "tokens", reaching.prompt_tokens(config, TOKENS), 2)
    return loading.text_tokens(folder, config, loading.packaged_text()[1], tokens)


class ThreeWays:
    """The state that the chains carry from layer to layer; `given` is what the references were given."""

    def __init__(
        self, source: LayerSource, target: Target, references: References, given: Any, replaced: dict[str, str]
    ) -> None:
        self.source, self.references, self.dtype = source, references, references.dtype
        _, self.target_modules = loading.decoder_layers(target.model)
        self.target_layers, self.device = target.layers, target.device
        self.replaced = replaced
        self.at_target, self.target_kwargs = references.calls(target.model, placed(given, self.device), self.dtype)
        self.suspects: list[ModuleError] = []
        native, plain = source.model, references.native_kwargs
        inputs = references.wide_kwargs, self.target_kwargs, plain
        self.parts = (
            outer_parts.embeddings(native, (references.at_wide, self.at_target, references.at_native)),
            *outer_parts.layer_inputs(native, *inputs, torch.arange(tokens_of(references.at_wide))),
        )
        self.corrected_kwargs = outer_parts.corrected(self.target_kwargs, plain, self.parts, self.dtype, self.device)

    def layer(self, index: int) -> LayerError:
        """Run one layer all ways, move the chains on, and look inside when it stands out."""
        with self.source.layer(index) as native_layer:
            said = self.references.layer(index, native_layer)
            by_target = fetched(self._target(index, placed(said.given, self.device), self.corrected_kwargs))
            self.at_target = self._target(index, self.at_target, self.target_kwargs)
            error = self._error(index, said, by_target)
            if precision.layer_line(error, dtype_name(self.dtype)).stands_out:
                self.source.read_rest()
                wide = said.wide if said.wide is not None else widened(native_layer, self.references.wide_dtype)
                modules = native_layer, self.target_modules[index], wide
                call = said.given, self.references.native_kwargs[index]
                self.suspects += look_inside(
                    index, error.module, modules, call, self.replaced, self.device, said.undecided, self.source.model
                )
        return error

    def _target(self, index: int, hidden: torch.Tensor, kwargs: list[dict[str, Any]]) -> torch.Tensor:
        return run_target(self.source, self.target_layers[index], hidden, kwargs[index])

    def _error(self, index: int, said: LayerReference, by_target: torch.Tensor) -> LayerError:
        exact, by_native, skip, base = said.exact, said.by_native, said.undecided, rows(said.given)
        # Architectures that carry several streams a token have as many rows for it.
        keep = (~skip).repeat_interleave(base.shape[0] // skip.shape[0])
        update = rows(exact) - base
        native_update, target_update = rows(by_native) - base, rows(by_target) - base
        return LayerError(
            index,
            f"{self.source.path}.{index}",
            tensor_error(target_update, update, keep),
            tensor_error(native_update, update, keep),
            tensor_error(by_target, exact, keep),
            tensor_error(by_native, exact, keep),
            _ratio_max(target_update, native_update, update, base, keep, dtype_name(self.dtype)),
            tensor_error(fetched(self.at_target), said.at_wide),
            tensor_error(said.at_native, said.at_wide),
            bool(torch.equal(by_target, by_native)),
            tokens_of(said.given),
            int(skip.sum()),
            *_reach(exact),
        )


def _reach(exact: torch.Tensor) -> tuple[float | None, int]:
    """The largest finite absolute value, and how many elements are not finite."""
    known = torch.isfinite(exact)
    return (finite(float(exact[known].abs().max())) if bool(known.any()) else None), int((~known).sum())


def _ratio_max(
    target: torch.Tensor, native: torch.Tensor, exact: torch.Tensor, base: torch.Tensor, keep: torch.Tensor, dtype: str
) -> float | None:
    """The largest element error over max(largest native error of its row, k · eps · rms of the row's output)."""
    if not bool(keep.any()):
        return None
    error, native_error = (target - exact)[keep].abs(), (native - exact)[keep].abs().amax(-1)
    floor = precision.K * precision.EPS[dtype] * (exact + base)[keep].pow(2).mean(-1).sqrt()
    return finite(float((error.amax(-1) / torch.maximum(native_error, floor).clamp_min(1e-300)).max()))
