"""The script of a bundle that puts its precision policy into the model; it is the same text for every model."""

PRECISION_SCRIPT = '''\
"""Puts the precision policy beside this file into a model: modules round to the scheme's format, promoted ones do not."""

import json
from pathlib import Path

import torch

LARGEST = {"int8": 127.0, "fp8_e4m3": 448.0}


def follow_policy(model: torch.nn.Module, path: Path = Path(__file__).with_name("precision_policy.json")) -> None:
    """The model under the policy."""
    policy = json.loads(path.read_text(encoding="utf-8"))
    promoted = {one["module"] for one in policy["promoted"]}
    units = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) or any(one.dim() == 3 for one in module.parameters(recurse=False))
    }
    for name in promoted - set(units):
        raise SystemExit(f"the precision policy promotes {name}, which this model does not have")
    for name, module in units.items():
        if policy["scheme"] == "native":
            if name in promoted:
                _widen(module)
        elif name not in promoted:
            _round(module, policy["scheme"])


def _rounded(tensor: torch.Tensor, kind: str) -> torch.Tensor:
    wide = tensor.float()
    scale = (wide.abs().amax(dim=(-2, -1), keepdim=True) / LARGEST[kind]).clamp_min(2.0**-100)
    scaled = (wide / scale).clamp(-LARGEST[kind], LARGEST[kind])
    stored = scaled.to(torch.float8_e4m3fn) if kind == "fp8_e4m3" else scaled.round().to(torch.int8)
    return (stored.float() * scale).to(tensor.dtype)


def _round(module: torch.nn.Module, kind: str) -> None:
    for key, parameter in list(module.named_parameters(recurse=False)):
        if parameter.dim() >= 2:
            setattr(module, key, torch.nn.Parameter(_rounded(parameter.detach(), kind), requires_grad=False))

    def before(_module: torch.nn.Module, args: tuple) -> tuple:
        first = args[0]
        return (_rounded(first.reshape(-1, first.shape[-1]), kind).reshape(first.shape), *args[1:])

    module.register_forward_pre_hook(before)


def _widen(module: torch.nn.Module) -> None:
    narrow = next(module.parameters()).dtype
    module.to(torch.float32 if narrow in (torch.bfloat16, torch.float16) else torch.float64)
    wide = next(module.parameters()).dtype

    def cast(value: object, dtype: torch.dtype) -> object:
        return value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    module.register_forward_pre_hook(lambda _module, args: tuple(cast(one, wide) for one in args))
    module.register_forward_hook(lambda _module, _args, out: cast(out, narrow))
'''
