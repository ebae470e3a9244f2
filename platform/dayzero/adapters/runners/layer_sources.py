"""Where the layers of a model come from. A source holds them all in memory, or reads one after the other.

    source = open_source(request, folder, config, dtype)
    target = make_target(source, device)          # shares the source's weights, or follows it from layer to layer
    with source.layer(index) as layer: ...        # the native layer has its weights, and so has the target's

Weights outside of layers (embeddings, norms, head) are always there.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.measuring import held_bytes
from dayzero.adapters.runners.process_memory import resident_bytes
from dayzero.adapters.runners.scaled import require_scales
from dayzero.adapters.runners.streamed_layers import StreamedLayers
from dayzero.domain.observed_source import WeightSource
from dayzero.domain.runs import RunRequest
from dayzero.stages.streaming.choosing import choose_source, roomy

MEMORY_OPTION, FROM_OPTION = "memory_limit_bytes", "layers_from"
"""The run's memory limit, as the runner tells its child; and what the layers come from: auto, memory or stream."""


class LayerSource(Protocol):
    """The native layers of a model; `model` is its module tree, `path` that of the list of its `count` layers."""

    model: Any
    path: str
    count: int

    def layer(self, index: int) -> AbstractContextManager[Any]:
        """The layer with its weights, while the context lasts."""
        ...

    def follow(self, model: Any, device: torch.device) -> None:
        """From now on the same layer of that tree (a shadow of `model`) has the weights too, on the device."""
        ...

    def read_rest(self) -> bool:
        """Read what of the layer that is there now was left out, because nothing had reached it; whether something was."""
        ...

    def told(self) -> WeightSource:
        """What was taken from where, so far."""
        ...


class InMemory:
    """A model that is there as a whole."""

    def __init__(self, model: Any, why: str = "the model was given", limit_bytes: int | None = None) -> None:
        self.model, self._why, self._limit_bytes = model, why, limit_bytes
        self.path, self._layers = loading.decoder_layers(model)
        self.count = len(self._layers)

    @contextmanager
    def layer(self, index: int) -> Iterator[Any]:
        """The layer."""
        yield self._layers[index]

    def follow(self, model: Any, device: torch.device) -> None:
        """A shadow has the weights already."""

    def read_rest(self) -> bool:
        """Nothing was left out."""
        return False

    def told(self) -> WeightSource:
        """The whole model is held."""
        largest = max((held_bytes(layer) for layer in self._layers), default=0)
        total = held_bytes(self.model)
        return WeightSource(False, self._why, total, largest, limit_bytes=self._limit_bytes)


def as_source(given: Any) -> LayerSource:
    """A source as it is; a model as one that is in memory."""
    return InMemory(given) if isinstance(given, torch.nn.Module) else given


def open_source(request: RunRequest, folder: Path, config: Any, dtype: torch.dtype) -> LayerSource:
    """The source that the request asks for (`layers_from`), or that its memory limit leaves.

    BlockedError: too little memory even for one layer, or for the model where it was asked for as a whole.
    """
    asked = str(request.options.get(FROM_OPTION, "auto"))
    limit = loading.option_int(request, MEMORY_OPTION, 0, least=0) or None
    if asked in ("auto", "memory") and limit is None:
        return InMemory(loading.load_model(folder, dtype), "no memory limit is known")
    if asked == "auto" and limit is not None:
        stored = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
        enough = roomy(stored, limit, resident_bytes(os.getpid())) if stored else None
        if enough is not None:
            return InMemory(loading.load_model(folder, dtype), enough.why, limit)
    require_scales(folder, config)
    streamed = StreamedLayers(folder, dtype)
    choice = choose_source(asked, streamed.sizes, limit, streamed.held_before_bytes)
    print(f"layers: {'streamed' if choice.streamed else 'in memory'}, {choice.why}")
    if choice.streamed:
        return streamed.opened(choice.why, limit)
    return InMemory(loading.load_model(folder, dtype), choice.why, limit)
