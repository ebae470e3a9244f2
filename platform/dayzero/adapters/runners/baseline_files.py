"""Baselines on the disk: a folder each, named by what it was computed from.

    baselines/<sha256>/baseline.json, layer-00012.safetensors …, logits.safetensors

A folder is there whole or not at all; tensors are there for the layers that were chosen when it was recorded.
"""

import shutil
import tempfile
from collections.abc import Mapping
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from dayzero.adapters.runners.baseline_folders import DOCUMENT
from dayzero.adapters.runners.figures import dtype_name
from dayzero.adapters.runners.three_ways import reference_dtype
from dayzero.codec import dump
from dayzero.domain.baselines import Baseline, BaselineOf
from dayzero.domain.runs import RunRequest
from dayzero.errors import BadInputError

FOLDER_OPTION, CONTENT_OPTION = "baseline_dir", "content_id"
"""Where baselines lie, and which release content a model folder holds; without both none is used."""
METHOD = "reference-1"
"""Version of how references are computed; what changes their figures makes a new one."""
LOGITS = "logits.safetensors"
KEPT = ("exact", "by_native", "at_wide", "at_native", "undecided")
COMPUTED_BY = ("torch", "transformers")


def baseline_of(request: RunRequest, kind: str, ids: list[torch.Tensor], dtype: torch.dtype) -> BaselineOf | None:
    """What a baseline of that kind (layers, logits) would be named after; None where the request names no release content."""
    content = request.options.get(CONTENT_OPTION)
    if not isinstance(content, str) or not content:
        return None
    inputs = sha256(repr([one.tolist() for one in ids]).encode()).hexdigest()
    versions = {package: version(package) for package in COMPUTED_BY}
    versions["vectors"] = torch.backends.cpu.get_cpu_capability()
    tokens = sum(one.shape[1] for one in ids)
    return BaselineOf(kind, content, inputs, tokens, dtype_name(dtype), dtype_name(reference_dtype(dtype)), METHOD, versions)


def folder_of(request: RunRequest, of: BaselineOf | None) -> Path | None:
    """Where that baseline lies if it was recorded; None where nobody asks for baselines."""
    at = request.options.get(FOLDER_OPTION)
    return Path(at) / of.name if of is not None and isinstance(at, str) and at else None


class RecordedLayers:
    """The layers of a recorded baseline."""

    def __init__(self, folder: Path) -> None:
        self.name, self._folder = folder.name, folder
        self.used = 0

    def layer(self, index: int) -> Mapping[str, torch.Tensor] | None:
        """The layer's tensors by name (KEPT); None where they were not kept. BadInputError: the file is broken."""
        file = self._folder / layer_file(index)
        if not file.is_file():
            return None
        found = _tensors(file)
        if set(found) != set(KEPT):
            raise BadInputError(f"{file} does not hold {', '.join(KEPT)}.", remedy="Remove the baseline and record it anew.")
        self.used += 1
        return found


def recorded_layers(request: RunRequest, ids: torch.Tensor, dtype: torch.dtype) -> RecordedLayers | None:
    """The recorded baseline of that input; None where there is none."""
    folder = folder_of(request, baseline_of(request, "layers", [ids], dtype))
    return RecordedLayers(folder) if folder is not None and (folder / DOCUMENT).is_file() else None


def recorded_logits(
    request: RunRequest, windows: list[torch.Tensor], dtype: torch.dtype
) -> tuple[str, Mapping[str, torch.Tensor]] | None:
    """Name and tensors (0.wide, 0.native, 1.wide …) of the recorded logits of those inputs; None where there are none."""
    folder = folder_of(request, baseline_of(request, "logits", windows, dtype))
    if folder is None or not (folder / LOGITS).is_file():
        return None
    return folder.name, _tensors(folder / LOGITS)


def layer_file(index: int) -> str:
    """The name of a layer's file."""
    return f"layer-{index:05d}.safetensors"


def _tensors(file: Path) -> dict[str, torch.Tensor]:
    try:
        return dict(load_file(file))
    except (OSError, SafetensorError) as error:
        raise BadInputError(f"{file} cannot be read: {error}.", remedy="Remove the baseline and record it anew.") from error


class BaselineWriter:
    """A baseline in the making, in a folder that takes its name when it is whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._partial = Path(tempfile.mkdtemp(prefix=".recording-", dir=folder.parent))
        self.kept_bytes = 0

    def keep(self, file: str, tensors: Mapping[str, torch.Tensor]) -> int:
        """Write tensors; their bytes."""
        save_file({name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()}, self._partial / file)
        size = (self._partial / file).stat().st_size
        self.kept_bytes += size
        return size

    def finish(self, baseline: Baseline) -> None:
        """The folder is there; one that another run put there meanwhile stays."""
        (self._partial / DOCUMENT).write_bytes(dump(baseline))
        try:
            self._partial.rename(self._folder)
        except OSError:
            if not (self._folder / DOCUMENT).is_file():
                raise
            self.give_up()

    def give_up(self) -> None:
        """Leave nothing behind."""
        shutil.rmtree(self._partial, ignore_errors=True)
