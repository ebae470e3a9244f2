"""UNPICKLE: tensors out of pickles, by torch's reader that builds nothing but tensors, in a child that has no network."""

import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from dayzero.domain.conversion import Unpickled
from dayzero.domain.runs import RunRequest
from dayzero.errors import BadInputError, BlockedError

PICKLE, SAFE = ".bin", ".safetensors"


def unpickle(request: RunRequest) -> Unpickled:
    """Every pickle that the option `files` names (one a line, below model_dir) as a safetensors file below the option `out`.

    BadInputError: a pickle that asks for more than tensors, that holds something else, or a tensor that is in two of them.
    BlockedError: the network could not be closed.
    """
    if Path("reason.txt").exists():
        raise BlockedError(
            f"pickles are read without network only, and {Path('reason.txt').read_text()}.",
            remedy="Run it where network namespaces can be made.",
        )
    assert request.model_dir is not None
    out, names = Path(str(request.options["out"])), str(request.options["files"]).splitlines()
    seen: set[str] = set()
    written, size = [], 0
    for name in names:
        tensors = _tensors(Path(request.model_dir) / name, name)
        twice = next(iter(sorted(seen & set(tensors))), None)
        if twice is not None:
            raise BadInputError(f"{twice} is in {name} and in another of the release's pickles.")
        seen |= set(tensors)
        size += sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        written.append(_written(name, tensors, out))
    return Unpickled(tuple(written), len(seen), size)


def _tensors(path: Path, name: str) -> dict[str, torch.Tensor]:
    try:
        # Files of before torch 1.6 are no archives and cannot be mapped.
        found: Any = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise BadInputError(
            f"{name} is no pickle of tensors alone, and was not loaded: {first[:200]}",
            remedy="Ask its publisher for safetensors.",
        ) from error
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise BadInputError(f"{name} holds a {type(found).__name__}, not tensors by name.")
    other = next((key for key, value in found.items() if not isinstance(value, torch.Tensor)), None)
    if other is not None:
        raise BadInputError(f"{name} holds {other[:160]}, a {type(found[other]).__name__} and no tensor.")
    return found


def _written(name: str, tensors: dict[str, torch.Tensor], out: Path) -> str:
    target = name.removesuffix(PICKLE).replace("pytorch_model", "model") + SAFE
    owned, storages = {}, set()
    for key, tensor in tensors.items():
        storage = tensor.untyped_storage().data_ptr()
        # Tied tensors share one storage in a pickle; a safetensors file has no way to say so.
        owned[key] = tensor.clone(memory_format=torch.contiguous_format) if storage in storages else tensor.contiguous()
        storages.add(storage)
    path = out / target
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(owned, path, {"format": "pt"})
    return target
