"""The modelling library's own preparation of a checkpoint, with the loading itself held back."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from transformers import PreTrainedModel

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.unset_buffers import memory_marked, require_set
from dayzero.errors import BadInputError, BlockedError

NOTHING: Mapping[str, Any] = {"missing_keys": set(), "unexpected_keys": set(), "mismatched_keys": set(), "error_msgs": []}


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A model without weights, and what the library would have loaded it with.

    `file_of`, `bytes_of` and `shape_of` say where each tensor of the checkpoint lies and how large it is.
    """

    model: Any
    files: tuple[str, ...]
    plan: Any
    file_of: Mapping[str, str]
    bytes_of: Mapping[str, int]
    shape_of: Mapping[str, tuple[int, ...]]

    def names(self) -> dict[str, str]:
        """For each tensor of the checkpoint the (first) name that the library gives it, also where the model has none such."""
        from transformers import core_model_loading as library

        mapping = self.plan.weight_mapping or []
        renamings = [one for one in mapping if isinstance(one, library.WeightRenaming)]
        converters = [one for one in mapping if isinstance(one, library.WeightConverter)]
        state, prefix = self.model.state_dict(), self.model.base_model_prefix
        found = {}
        for key in sorted(self.file_of, key=library.dot_natural_key):
            name, _ = library.rename_source_key(key, renamings, converters, prefix, state)
            if name not in state and key in state:
                name, _ = library.rename_source_key(key, [], [], prefix, state)
            found[key] = name
        return found

    def load(self, slices: Mapping[str, Any]) -> None:
        """Bring those tensors into the model. BadInputError: one has another shape, or cannot be converted."""
        from transformers import core_model_loading as library

        told, _ = library.convert_and_load_state_dict_in_model(self.model, dict(slices), self.plan)
        for name, stored, wanted in sorted(told.mismatched_keys):
            raise BadInputError(
                f"{name} has the shape {list(stored)}, the model wants {list(wanted)}.", remedy="Fetch the model anew."
            )
        for name, why in sorted(told.conversion_errors.items()):
            raise BadInputError(f"{name} cannot be converted: {str(why).strip().splitlines()[-1]}.", remedy="Fetch it anew.")


def without_weights(folder: Path, dtype: torch.dtype, *, headless: bool = False) -> HeldBack:
    """The checkpoint's model on the meta device, as loading.load_model would build it, or without a head. Errors as there."""
    with _held_back() as kept:
        model = loading.from_pretrained(folder, dtype, headless=headless)[0]
    files, plan = kept[-1]
    file_of: dict[str, str] = {}
    bytes_of: dict[str, int] = {}
    shape_of: dict[str, tuple[int, ...]] = {}
    for file in files:
        try:
            with safe_open(file, framework="pt", device="cpu") as opened:
                for key in opened.keys():  # noqa: SIM118 - no mapping
                    file_of[key] = str(file)
                    bytes_of[key] = _bytes(opened.get_slice(key))
                    shape_of[key] = tuple(opened.get_slice(key).get_shape())
        except (OSError, SafetensorError) as error:
            raise BadInputError(f"{file} cannot be read: {error}.", remedy="Fetch the model anew.") from error
    return HeldBack(model.eval().requires_grad_(False), tuple(map(str, files)), plan, file_of, bytes_of, shape_of)


def _bytes(slice_: Any) -> int:
    """Bytes of a tensor from its header: the digits of a dtype's name are its bits."""
    name = str(slice_.get_dtype())
    bits = 8 if name == "BOOL" else int("".join(char for char in name.split("_")[0] if char.isdigit()))
    elements = 1
    for size in slice_.get_shape():
        elements *= int(size)
    return elements * bits // 8


@contextmanager
def _held_back() -> Iterator[list[tuple[Any, Any]]]:
    """While this lasts, models are prepared and not loaded; yields (files, plan) of each."""
    kept: list[tuple[Any, Any]] = []
    told = SimpleNamespace(to_dict=lambda: dict(NOTHING))

    def keep(_model: Any, _state: Any, files: Any, plan: Any, *_more: Any) -> tuple[Any, None]:
        kept.append((files, plan))
        return told, None

    originals = {name: vars(PreTrainedModel).get(name) for name in ("_load_pretrained_model", "_finalize_model_loading")}
    if None in originals.values():
        raise BlockedError(
            "this release of the modelling library does not load as it is streamed here.", remedy="Install transformers 5."
        )
    PreTrainedModel._load_pretrained_model = staticmethod(keep)
    PreTrainedModel._finalize_model_loading = staticmethod(lambda *_: told)
    try:
        yield kept
    finally:
        for name, original in originals.items():
            setattr(PreTrainedModel, name, original)


def compute_buffers(model: Any) -> None:
    """Give the buffers that no checkpoint holds (rotary tables) what the library's own initialisation computes; parameters
    have no memory that it could draw into. BlockedError when it leaves one unset."""
    with memory_marked():
        for module in model.modules():
            for name in module._non_persistent_buffers_set:
                buffer = module._buffers.get(name)
                if buffer is not None and buffer.is_meta:
                    module._buffers[name] = torch.empty_like(buffer, device="cpu")
        model.initialize_weights()
    require_set(model)
