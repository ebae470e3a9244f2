"""Modules that give up precision, and modules that keep it: what a precision policy says, put into a model.

`int8` and `fp8_e4m3`: weights and activations of a module are rounded to the format with one scale a matrix, and computed with
in the model's dtype. `native`: modules compute as they are, promoted ones in the wider dtype.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from dayzero.adapters.runners.figures import cast
from dayzero.adapters.runners.quantized_cache import LARGEST, TINY, stored
from dayzero.adapters.runners.three_ways import in_precision, reference_dtype, widened
from dayzero.domain.precision_policy import PrecisionPolicy
from dayzero.errors import BadInputError, BlockedError

SCHEMES = ("int8", "fp8_e4m3", "native")


def units(model: Any) -> dict[str, Any]:
    """Modules that a scheme is about: linear layers, and groups of experts whose matrices are stacked in one parameter."""
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) or any(parameter.dim() == 3 for parameter in module.parameters(recurse=False))
    }


def rounded(tensor: torch.Tensor, kind: str) -> torch.Tensor:
    """The tensor rounded to the format with one scale for each matrix of its last two dimensions."""
    wide = tensor.float()
    scale = (wide.abs().amax(dim=(-2, -1), keepdim=True) / LARGEST[kind]).clamp_min(TINY)
    return (stored(wide / scale, kind) * scale).to(tensor.dtype)


class Schemed:
    """A model whose units follow a scheme or keep their precision; the model's other modules are not touched."""

    def __init__(self, model: Any, scheme: str) -> None:
        if scheme not in SCHEMES:
            raise BadInputError(f"no precision scheme is called {scheme}.", remedy=f"Known ones: {', '.join(SCHEMES)}.")
        if any(parameter.is_meta for parameter in model.parameters()):
            raise BlockedError(
                "a precision policy needs all layers in memory, and they are streamed here.",
                remedy="Give the run more memory, or verify without the policy.",
            )
        self.scheme = scheme
        self.units = units(model)
        self._original = {
            name: {key: parameter for key, parameter in module.named_parameters(recurse=False) if parameter.dim() >= 2}
            for name, module in self.units.items()
        }
        self._low: set[str] = set()
        self._handles: dict[str, Any] = {}

    def only(self, low: frozenset[str]) -> None:
        """These units follow the scheme, all others keep their precision."""
        for name in sorted(self._low - low):
            self._keep(name)
        for name in sorted(low - self._low):
            self._lower(name)
        self._low = set(low)
        if self.scheme == "native":
            self._widen(low)

    def promote(self, promoted: frozenset[str]) -> None:
        """All units but these follow the scheme."""
        self.only(frozenset(self.units) - promoted)

    def restore(self) -> None:
        """Every unit as it was."""
        self.only(frozenset())
        for name in list(self._handles):
            self._free(name)

    def _lower(self, name: str) -> None:
        if self.scheme == "native":
            return
        module = self.units[name]
        for key, parameter in self._original[name].items():
            setattr(module, key, torch.nn.Parameter(rounded(parameter.detach(), self.scheme), requires_grad=False))
        self._handles[name] = module.register_forward_pre_hook(self._round_input)

    def _keep(self, name: str) -> None:
        self._free(name)
        for key, parameter in self._original[name].items():
            setattr(self.units[name], key, parameter)

    def _free(self, name: str) -> None:
        handle = self._handles.pop(name, None)
        if handle is not None:
            handle.remove()

    def _round_input(self, _module: Any, args: Any) -> Any:
        first = args[0]
        return (rounded(first.reshape(-1, first.shape[-1]), self.scheme).reshape(first.shape), *args[1:])

    def _widen(self, low: frozenset[str]) -> None:
        for name, module in self.units.items():
            if name in low:
                self._free(name)
            elif name not in self._handles:
                self._handles[name] = _Wide(module)


class _Wide:
    """A module computed in the wider dtype: inputs are widened, the result is rounded once."""

    def __init__(self, module: Any) -> None:
        self.module, self.forward = module, module.forward
        dtype = next(module.parameters()).dtype
        wide = reference_dtype(dtype)
        copy = widened(module, wide)

        def forward(*args: Any, **kwargs: Any) -> Any:
            with in_precision(wide):
                out = copy(*cast(args, wide), **cast(kwargs, wide))
            return cast(out, dtype)

        module.forward = forward

    def remove(self) -> None:
        """The module as it was."""
        del self.module.forward


@contextmanager
def policy_applied(model: Any, policy: PrecisionPolicy | None) -> Iterator[None]:
    """The model under the policy; BadInputError where it names a module that the model has not."""
    if policy is None:
        yield
        return
    schemed = Schemed(model, policy.scheme)
    promoted = frozenset(one.module for one in policy.promoted)
    unknown = sorted(promoted - set(schemed.units))
    if unknown:
        raise BadInputError(
            f"the precision policy promotes {unknown[0]}, which this model does not have.",
            remedy="Take the policy that was found for this model: dayzero verify MODEL --sensitive SCHEME --out FILE.",
        )
    schemed.promote(promoted)
    try:
        yield
    finally:
        schemed.restore()
