"""A model whose layers are read one by one: built without memory, filled by the modelling library's own loader.

The library builds the model, picks its quantizer and its mapping from checkpoint names to its own exactly as it does when it
loads the whole; only the loading itself is held back, and done layer by layer. So both ways give the same tensors.
"""

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.held_back import HeldBack, compute_buffers, without_weights
from dayzero.adapters.runners.placing import HOST
from dayzero.adapters.runners.process_memory import resident_bytes
from dayzero.adapters.runners.reached_experts import ReachedExperts, Stacks, expert_of, stacks_in
from dayzero.domain.observed_source import WeightSource
from dayzero.errors import BadInputError
from dayzero.stages.streaming.choosing import WeightSizes

Entry = tuple[dict[str, Any], str]
"""Where a module keeps a tensor: its dictionary of parameters or buffers, and the name in it."""


class StreamedLayers:
    """Layers of the checkpoint in a folder, or of the tower at that path in its model, of which nothing else is read then;
    `sizes` are known at once, weights are there after `opened`.

    BadInputError: files that are no safetensors, a checkpoint without some tensor. BlockedError: as when a model is loaded.
    """

    def __init__(self, folder: Path, dtype: torch.dtype, tower: str | None = None) -> None:
        self.held_before_bytes = resident_bytes(os.getpid())
        self._held: HeldBack = without_weights(folder, dtype, headless=tower is not None)
        whole = self._held.model
        self.model = whole if tower is None else whole.get_submodule(tower)
        self.model.config._name_or_path = whole.config._name_or_path
        path, self._layers = loading.decoder_layers(self.model)
        self.path = path if tower is None else f"{tower}.{path}"
        self.count = len(self._layers)
        whole.tie_weights()
        compute_buffers(whole)
        self._empty = {id(tensor): tensor for _, tensor in _entries(self.model) if tensor.is_meta}
        self._keys = self._keys_of_placeholders()
        self._of_layer = [{id(tensor) for _, tensor in _entries(layer) if tensor.is_meta} for layer in self._layers]
        self.sizes = self._sizes()
        self._followers: list[tuple[Any, torch.device]] = []
        self._why = ""
        self._limit_bytes: int | None = None
        self._read_bytes = self._reads = self._experts = self._experts_read = 0
        self._reached: list[ReachedExperts] = []
        self.read_s = 0.0

    def opened(self, why: str, limit_bytes: int | None) -> "StreamedLayers":
        """The same, with the weights outside of layers."""
        self._why, self._limit_bytes = why, limit_bytes
        outside = set(self._empty) - set().union(*self._of_layer)
        self._replace(self.model, self._read(outside), HOST)
        return self

    @contextmanager
    def layer(self, index: int) -> Iterator[Any]:
        """The layer with its weights; they are gone afterwards. Experts are read when tokens reach them."""
        layer, began = self._layers[index], time.monotonic()
        self._reached = [ReachedExperts(stacks, self._read_rows) for stacks in self._stacks_of(index)]
        later = {one: made for reached in self._reached for one, made in reached.by_placeholder().items()}
        tensors = self._read(self._of_layer[index] - set(later)) | later
        self._reads += 1
        self.read_s += time.monotonic() - began
        filled = self._replace(layer, tensors, HOST)
        for model, device in self._followers:
            if device != HOST:
                self.read_rest()
            filled += self._replace(loading.decoder_layers(model)[1][index], tensors, device)
        del tensors, later
        try:
            yield layer
        finally:
            for (place, leaf), placeholder in filled:
                place[leaf] = placeholder
            for reached in self._reached:
                self._experts_read += len(reached.there)
                self._experts += reached.count
                reached.close()
            self._reached = []

    def read_rest(self) -> bool:
        """Read the experts of this layer that nothing has reached yet; whether there were any."""
        lacking = [reached.all() for reached in self._reached]
        return any(lacking)

    def _stacks_of(self, index: int) -> list[Stacks]:
        """Modules of experts whose parameters can be read expert by expert."""
        return [
            stacks for stacks in stacks_in(self._layers[index])
            if all(self._by_expert(stacks.module._parameters[leaf], stacks.count) for leaf in stacks.leaves)
        ]  # fmt: skip

    def _by_expert(self, placeholder: Any, count: int) -> bool:
        """Whether the checkpoint keeps each expert by itself, or all in one tensor whose first dimension they are."""
        keys = self._keys.get(id(placeholder), [])
        numbers = {expert_of(key) for key in keys}
        if None not in numbers:
            return numbers == set(range(count))
        return numbers == {None} and all(self._held.shape_of[key][:1] == (count,) for key in keys)

    def _read_rows(self, reached: ReachedExperts, experts: list[int]) -> dict[int, Any]:
        """The rows of those experts: their parameters are made so small for the while, and loaded as any other."""
        began = time.monotonic()
        stands_for: dict[int, int] = {}
        with reached.shrunk(len(experts)) as small:
            for placeholder, fewer in small:
                stands_for[id(fewer)] = id(placeholder)
                self._empty[id(fewer)] = fewer
            keys = {
                key: experts if expert_of(key) is None else None
                for one in stands_for.values() for key in self._keys[one] if expert_of(key) in (None, *experts)
            }  # fmt: skip
            tensors = self._load(keys)
        for one in stands_for:
            del self._empty[one]
        self.read_s += time.monotonic() - began
        return {stands_for[one]: tensor.data for one, tensor in tensors.items() if one in stands_for}

    def follow(self, model: Any, device: torch.device) -> None:
        """That tree's layers are filled with this one's; it shares their placeholders."""
        self._followers.append((model, device))

    def told(self) -> WeightSource:
        """What was streamed so far."""
        sizes = self.sizes
        return WeightSource(
            True, self._why, sizes.total_bytes, sizes.largest_layer_bytes, sizes.checkpoint_bytes, self._read_bytes,
            self._reads, self._limit_bytes, self._experts_read, self._experts, self.read_s,
        )  # fmt: skip

    def _keys_of_placeholders(self) -> dict[int, list[str]]:
        """The checkpoint's names behind each tensor of the model."""
        state = self._held.model.state_dict(keep_vars=True)
        keys: dict[int, list[str]] = defaultdict(list)
        for key, name in self._held.names().items():
            tensor = state.get(name)
            if tensor is not None and id(tensor) in self._empty:
                keys[id(tensor)].append(key)
        return keys

    def _sizes(self) -> WeightSizes:
        size = {one: tensor.numel() * tensor.element_size() for one, tensor in self._empty.items()}
        outside = set(self._empty) - set().union(*self._of_layer)
        return WeightSizes(
            sum(size.values()),
            sum(size[one] for one in outside),
            max((size[one] for one in outside), default=0),
            max((sum(size[one] for one in layer) for layer in self._of_layer), default=0),
            sum(Path(file).stat().st_size for file in self._held.files),
            self._merges(),
        )

    def _merges(self) -> bool:
        """Whether a layer's tensors are made of several, other than experts that are read one by one."""
        apart = {
            id(stacks.module._parameters[leaf])
            for index in range(self.count) for stacks in self._stacks_of(index) for leaf in stacks.leaves
        }  # fmt: skip
        return any(len(self._keys.get(one, ())) > 1 for layer in self._of_layer for one in layer - apart)

    def _read(self, wanted: set[int]) -> dict[int, Any]:
        """The tensors for those placeholders, read now."""
        tensors = self._load({key: None for one in wanted for key in self._keys.get(one, ())})
        lacking = wanted - set(tensors)
        if lacking:
            raise BadInputError(f"the checkpoint lacks {self._name_of(lacking)}.", remedy="Fetch it anew.")
        return tensors

    def _load(self, keys: Mapping[str, list[int] | None]) -> dict[int, Any]:
        """What those tensors of the checkpoint (rows of some) become, by the placeholders that the model has back."""
        before = {id(place): (place, dict(place)) for (place, _), _ in _entries(self.model)}
        with ExitStack() as stack:
            try:
                opened = {
                    file: stack.enter_context(safe_open(file, framework="pt", device="cpu"))
                    for file in {self._held.file_of[key] for key in keys}
                }
                slices = {key: opened[self._held.file_of[key]].get_slice(key) for key in keys}
            except (OSError, SafetensorError) as error:
                raise BadInputError(f"a weight file cannot be read: {error}.", remedy="Fetch the model anew.") from error
            self._held.load({key: one if keys[key] is None else _Rows(one, keys[key] or []) for key, one in slices.items()})
        for key, rows in keys.items():
            whole = self._held.bytes_of[key]
            self._read_bytes += whole if rows is None else whole // self._held.shape_of[key][0] * len(rows)
        tensors: dict[int, Any] = {}
        for place, old in before.values():
            for leaf, placeholder in old.items():
                if place[leaf] is not placeholder:
                    tensors[id(placeholder)] = _frozen(place[leaf])
                    place[leaf] = placeholder
        return tensors

    def _name_of(self, placeholders: set[int]) -> str:
        state = self.model.state_dict(keep_vars=True)
        names = sorted(name for name, tensor in state.items() if id(tensor) in placeholders)
        return f"{names[0]} and {len(names) - 1} more tensors" if len(names) > 1 else names[0]

    def _replace(self, module: Any, tensors: dict[int, Any], device: torch.device) -> list[tuple[Entry, Any]]:
        """Put tensors where their placeholders are; the entries with what was there."""
        replaced = []
        for (place, leaf), tensor in list(_entries(module)):
            made = tensors.get(id(tensor))
            if made is not None and id(tensor) in self._empty:
                replaced.append(((place, leaf), tensor))
                place[leaf] = made if device == HOST else _on_device(made, device)
        return replaced


class _Rows:
    """Some rows of a tensor in a file, as the library asks for a whole one."""

    def __init__(self, whole: Any, rows: list[int]) -> None:
        self._whole, self._rows = whole, rows

    def get_dtype(self) -> Any:
        """The dtype in the file."""
        return self._whole.get_dtype()

    def get_shape(self) -> list[int]:
        """The shape of these rows."""
        return [len(self._rows), *self._whole.get_shape()[1:]]

    def __getitem__(self, asked: Any) -> torch.Tensor:
        return torch.cat([self._whole[row : row + 1] for row in self._rows])[asked]


def _entries(module: Any) -> Iterable[tuple[Entry, Any]]:
    """Every place of a tensor in a module tree, shared ones each time."""
    for part in module.modules():
        for place in (part._parameters, part._buffers):
            for leaf, tensor in place.items():
                if tensor is not None:
                    yield (place, leaf), tensor


def _frozen(tensor: Any) -> Any:
    return tensor.requires_grad_(False) if isinstance(tensor, torch.nn.Parameter) else tensor


def _on_device(tensor: Any, device: torch.device) -> Any:
    moved = tensor.detach().to(device)
    return torch.nn.Parameter(moved, requires_grad=False) if isinstance(tensor, torch.nn.Parameter) else moved
