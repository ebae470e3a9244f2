"""TOWERS: each layer of the encoders of images and sound three ways, as LAYERS does it for the language model's.

A tower is read alone, layer by layer, whatever memory there is: nothing of the language model is needed for it.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.bridge_making import install
from dayzero.adapters.runners.figures import dtype_name
from dayzero.adapters.runners.held_back import without_weights
from dayzero.adapters.runners.observe_layers import ThreeWays
from dayzero.adapters.runners.placing import device_for
from dayzero.adapters.runners.references import References
from dayzero.adapters.runners.streamed_layers import StreamedLayers
from dayzero.adapters.runners.three_ways import compile_target, make_target
from dayzero.adapters.runners.tower_inputs import drawn_input
from dayzero.adapters.runners.tower_layers import tower_calls, towers_in
from dayzero.domain.observations import LayerErrors
from dayzero.domain.observed_towers import TowerErrors, TowersObserved
from dayzero.domain.runs import RunRequest
from dayzero.errors import BadInputError, BlockedError

ALONE = "a tower is read alone, layer by layer"


def observe_towers(request: RunRequest) -> TowersObserved:
    """Every tower that the library builds for the model; those whose layers cannot be run say why."""
    began = time.monotonic()
    loading.quiet()
    folder = loading.model_folder(request)
    dtype = loading.native_dtype(loading.read_config(folder), request.dtype)
    found = []
    for path in towers_in(without_weights(folder, dtype, headless=True).model):
        try:
            found.append(TowerErrors(path, _tower(request, folder, dtype, path)))
        except BlockedError as error:
            found.append(TowerErrors(path, unable=error.message))
    return TowersObserved(tuple(found), time.monotonic() - began)


def _tower(request: RunRequest, folder: Path, dtype: torch.dtype, path: str) -> LayerErrors:
    began = time.monotonic()
    source = StreamedLayers(folder, dtype, tower=path).opened(ALONE, None)
    given = drawn_input(source.model, dtype)
    device = device_for(request)
    install(request.bridges, device)
    patched = make_target(source, device, str(request.options.get("kernels", "fused")))
    with _plugins(patched, request) as replaced:
        target = compile_target(source, patched, request, device)
        references = References(source, given.given, dtype, calls=tower_calls)
        run = ThreeWays(source, target, references, given.given, dict(replaced))
        layers = tuple(run.layer(index) for index in range(source.count))
    return LayerErrors(
        dtype_name(dtype),
        dtype_name(references.wide_dtype),
        target.path,
        target.reference_path,
        layers[0].tokens if layers else 0,
        given.words,
        layers,
        tuple(run.suspects),
        request.custom_operators,
        time.monotonic() - began,
        source.told(),
        parts=tuple(replace(part, module=_of_tower(path, part.module)) for part in run.parts),
    )


def _of_tower(path: str, module: str) -> str:
    """A module of the tower as a module of the model."""
    return f"{path}.{module}" if module[:1].isalpha() else f"{path}{module}"


@contextmanager
def _plugins(tower: torch.nn.Module, request: RunRequest) -> Iterator[Mapping[str, str]]:
    """The request's plugins put into the tower; one that finds nothing there to replace has its place in the language model.

    A precision policy is about the language model's modules, so none is followed here.
    """
    asked = RunRequest(request.observation, request.platform, custom_operators=request.custom_operators)
    installed = loading.plugins_installed(tower, asked)
    try:
        replaced = installed.__enter__()
    except BadInputError as error:
        print(f"towers: {error.message}")
        yield {}
        return
    try:
        yield replaced
    finally:
        installed.__exit__(None, None, None)
