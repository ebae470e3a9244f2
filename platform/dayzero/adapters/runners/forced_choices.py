"""Expert choices of one run given to another, so that what follows from them can be compared.

Routers choose by `topk`, whatever they score by. A run that is forced gets the recorded indices, and the values of its own
scores at them; gradients flow through those values as through topk's. A chooser that is no topk is not recorded.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

TOPK = (torch.topk, torch.Tensor.topk)


class RecordedChoices(TorchFunctionMode):  # type: ignore[misc]
    """Notes the indices of every topk, in order, on the host."""

    def __init__(self) -> None:
        super().__init__()
        self.chosen: list[torch.Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func in TOPK:
            self.chosen.append(out[1].detach().to("cpu"))
        return out


class ForcedChoices(TorchFunctionMode):  # type: ignore[misc]
    """Answers each topk with the recorded indices; counts decisions (rows) and those that its own scores would take otherwise.

    A topk of another shape than the recorded one stays its own, and `strange` counts it.
    """

    def __init__(self, chosen: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self._left = list(reversed(chosen))
        self.decisions = 0
        self.differing = 0
        self.strange = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func not in TOPK:
            return out
        wanted = self._left.pop() if self._left else None
        if wanted is None or wanted.shape != out[1].shape:
            self.strange += 1
            return out
        wanted = wanted.to(out[1].device)
        own = out[1].sort(-1).values != wanted.sort(-1).values
        self.decisions += own[..., 0].numel()
        self.differing += int(own.any(-1).sum())
        given = args[0] if args else kwargs["input"]
        dim = args[2] if len(args) > 2 else kwargs.get("dim", -1)
        return torch.return_types.topk((given.gather(dim, wanted), wanted))


@contextmanager
def forcing(chosen: Sequence[torch.Tensor]) -> Iterator[ForcedChoices]:
    """The context in which a run takes these choices; without any it changes nothing (a compiler need not see a mode)."""
    forced = ForcedChoices(chosen)
    if not chosen:
        yield forced
        return
    with forced:
        yield forced
