"""One operator once more, with its tensors kept whole: whether what it was given is right and what it returned is not."""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from dayzero.adapters.runners.figures import tensor_error
from dayzero.adapters.runners.placing import HOST
from dayzero.adapters.runners.sketching import Part, Sketcher, first_tensor
from dayzero.codec import dump
from dayzero.domain.fingerprints import Divergence, Point, Replay, ReplayedRank
from dayzero.domain.observations import TensorError

GIVEN, PLACE = "given", "place"


class Keeper:
    """A Shower that keeps the tensors of one module, and forgets all others."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.kept: dict[str, torch.Tensor] = {}
        self.first: dict[str, int | None] = {}
        self.group = (0, 0)

    def show(self, module: str, point: Point, value: Any, part: Part | None = None, group: Part | None = None) -> None:
        """Keep it, if it is of the module."""
        tensor = first_tensor(value) if module == self.module else None
        if tensor is not None:
            self.kept[point.value] = tensor.detach().to(HOST, copy=True)
            self.first[point.value] = part[0] if part is not None and part[1] == tensor.shape[-1] else None
            self.group = group or self.group

    def watch_given(self, model: Any) -> None:
        """Keep what the module is given, too; a module that is not here is not watched."""
        module = dict(model.named_modules()).get(self.module)
        if module is not None:
            module.register_forward_pre_hook(lambda _module, args, kwargs: self._keep_given(args, kwargs), with_kwargs=True)

    def _keep_given(self, args: Any, kwargs: Any) -> None:
        tensor = first_tensor((args, kwargs))
        if tensor is not None:
            self.kept[GIVEN] = tensor.detach().to(HOST, copy=True)

    def save(self, path: Path) -> None:
        """Write what was kept, with the first channel of the output and the group that it is summed over."""
        first = self.first.get(Point.OUTPUT.value)
        place = torch.tensor([-1 if first is None else first, *self.group])
        save_file({**{name: value.contiguous() for name, value in self.kept.items()}, PLACE: place}, path)


def shower_of(replay: str, tokens: int, token_block: int) -> Keeper | Sketcher:
    """What looks on while a rank computes: it keeps the tensors of the module that is replayed, or sketches all."""
    return Keeper(replay) if replay else Sketcher(tokens, token_block)


def write_shown(shower: Keeper | Sketcher, rank: int, path: Path) -> None:
    """What was kept or sketched, for whoever compares the ranks."""
    if isinstance(shower, Keeper):
        shower.save(path)
    else:
        path.write_bytes(dump(shower.prints(rank)))


def replayed(divergence: Divergence, ranks: list[Path], alone: Path) -> Replay | None:
    """Each rank's tensors of the divergent operator against one process's, or where a sum went wrong against the sum of the
    parts. None: no rank has the operator."""
    here = {rank: found for rank, path in enumerate(ranks) if path.is_file() and len(found := load_file(path)) > 1}
    right = load_file(alone)
    before = Point.BEFORE_SUM.value
    summed = divergence.point is Point.OUTPUT and any(before in found for found in here.values())
    rows = []
    for rank, found in here.items():
        returned, expected = found.get(divergence.point.value), right.get(divergence.point.value)
        if summed and before in found:
            expected = _sum_of_parts(found, here)
        elif divergence.point is Point.BEFORE_SUM and before in found:
            returned, expected = _sum_of_parts(found, here), right.get(Point.OUTPUT.value)
        if returned is not None and expected is not None and _comparable(returned, expected, found):
            rows.append(ReplayedRank(rank, None if summed else _given(found, right), _error(returned, expected, found)))
    said = "the sum of the ranks' own parts in float64" if summed else "the same operator in one process"
    return Replay(divergence.module, divergence.point, said, tuple(rows)) if rows else None


def _sum_of_parts(found: dict[str, torch.Tensor], here: dict[int, dict[str, torch.Tensor]]) -> torch.Tensor:
    first, size = found[PLACE][1:].tolist()
    parts = [here[rank][Point.BEFORE_SUM.value] for rank in range(first, first + size) if rank in here]
    return torch.stack([part.to(torch.float64) for part in parts]).sum(0)


def _comparable(returned: torch.Tensor, expected: torch.Tensor, found: dict[str, torch.Tensor]) -> bool:
    """Whether it is the whole, or a part whose place is known."""
    return returned.numel() == expected.numel() or int(found[PLACE][0]) >= 0


def _given(found: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> TensorError | None:
    """The operator's input against one process's; None where it is a part whose place is not known."""
    ours, theirs = found.get(GIVEN), right.get(GIVEN)
    return tensor_error(ours, theirs) if ours is not None and theirs is not None and ours.shape == theirs.shape else None


def _error(returned: torch.Tensor, expected: torch.Tensor, found: dict[str, torch.Tensor]) -> TensorError:
    first = int(found[PLACE][0])
    if first >= 0 and returned.shape[-1] < expected.shape[-1]:
        expected = expected[..., first : first + returned.shape[-1]]
    if returned.shape != expected.shape:
        expected = expected.reshape(returned.shape)
    return tensor_error(returned, expected)
