"""Tokens whose expert routing is undecided at the native dtype's own error. Only references are asked, never the target."""

from typing import Any

import torch

from dayzero.adapters.runners.figures import ROUNDING

DRAWS = 8
NOISE = 2.0
"""Width of the perturbation in units of the native error: a margin within it counts as undecided."""


class RouterRecord:
    """What each router of one layer got (`beside`: its further arguments) and chose; a router returns integer choices."""

    def __init__(self, layer: Any) -> None:
        self.calls: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        self.beside: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {}
        self.handles = [
            module.register_forward_hook(
                lambda _module, args, given, out, name=name: self._note(name, args, given, out), with_kwargs=True
            )
            for name, module in layer.named_modules()
            if name
        ]

    def _note(self, name: str, args: Any, given: dict[str, Any], out: Any) -> None:
        chosen = choices(out)
        if chosen is not None and args and isinstance(args[0], torch.Tensor) and args[0].is_floating_point():
            self.calls.setdefault(name, (args[0].detach(), chosen))
            self.beside.setdefault(name, (args[1:], given))

    def close(self) -> None:
        """Stop recording."""
        for handle in self.handles:
            handle.remove()


def choices(out: Any) -> torch.Tensor | None:
    """The chosen experts [tokens, top k], sorted along the row, or None when the output holds none."""
    if not isinstance(out, tuple):
        return None
    found = [value for value in out if isinstance(value, torch.Tensor) and not value.is_floating_point() and value.dim() >= 2]
    if len(found) != 1 or found[0].dtype is torch.bool:
        return None
    return found[0].reshape(-1, found[0].shape[-1]).sort(-1).values


def undecided(wide_layer: Any, wide: RouterRecord, native: RouterRecord, dtype: torch.dtype, tokens: int) -> torch.Tensor:
    """Mask [tokens] of those that take other experts in native dtype, or when the router's input moves by native error."""
    mask = torch.zeros(tokens, dtype=torch.bool)
    modules = dict(wide_layer.named_modules())
    generator = torch.Generator().manual_seed(0)
    for name, (given, chosen) in wide.calls.items():
        if chosen.shape[0] != tokens:
            continue
        error = torch.full((tokens,), ROUNDING[dtype], dtype=given.dtype)
        rows = given.reshape(tokens, -1)
        if name in native.calls:
            native_given, native_chosen = native.calls[name]
            mask |= (native_chosen != chosen).any(-1)
            distance = (native_given.reshape(tokens, -1).to(rows.dtype) - rows).pow(2).mean(-1).sqrt()
            error = torch.maximum(error, distance / rows.pow(2).mean(-1).sqrt().clamp_min(torch.finfo(rows.dtype).tiny))
        scale = NOISE * error * rows.pow(2).mean(-1).sqrt()
        for _ in range(DRAWS):
            noise = torch.randn(rows.shape, generator=generator, dtype=rows.dtype) * scale[:, None]
            with torch.no_grad():
                more, named = wide.beside[name]
                moved = choices(modules[name]((rows + noise).reshape(given.shape), *more, **named))
            if moved is not None:
                mask |= (moved != chosen).any(-1)
    return mask
