"""A short fine-tune of one module tree: AdamW on master weights, dynamic loss scaling where the dtype needs it.

In half precision the model computes with rounded copies of float32 masters, as mixed-precision training does (Micikevicius et
al. 2018); in float32 and float64 parameters are their own masters. float16's gradients underflow without a scale: torch's
GradScaler doubles and halves it. A step that overflows is tried again on the same tokens at half the scale and counted, so that
the steps of several runs stay comparable.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch

from dayzero.adapters.runners.figures import finite
from dayzero.adapters.runners.forced_choices import RecordedChoices, forcing
from dayzero.adapters.runners.three_ways import InFloat64
from dayzero.domain.observed_training import Scaling

MOST_OVERFLOWS = 32
"""Attempts after which a scale of 2^16 is below 2^-16: gradients that are still not finite are wrong, not large."""
HALF = (torch.bfloat16, torch.float16)
OPTIMIZER = "AdamW, betas 0.9 and 0.999, no weight decay, float32 masters"

Tensors = dict[str, torch.Tensor]


def trainable(model: Any) -> dict[str, Any]:
    """Every floating parameter, set to be trained, by name."""
    for parameter in model.parameters():
        parameter.requires_grad_(parameter.is_floating_point())
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def without_chance(model: Any) -> Any:
    """The model in training mode with everything random switched off: dropout and the jitter of routers."""
    for module in model.modules():
        if isinstance(module, torch.nn.modules.dropout._DropoutNd):
            module.p = 0.0
        for name, value in list(vars(module).items()):
            if isinstance(value, float) and ("dropout" in name or "jitter" in name):
                setattr(module, name, 0.0)
    return model.train()


def in_grad_precision(dtype: torch.dtype) -> Any:
    """The context in which code of that precision runs with gradients."""
    return InFloat64() if dtype is torch.float64 else nullcontext()


def loss_of(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """The library's own loss (mean negative log-likelihood of each next token) of ids [1, tokens]."""
    dtype = next(parameter.dtype for parameter in model.parameters() if parameter.is_floating_point())
    with torch.enable_grad(), in_grad_precision(dtype):
        loss: torch.Tensor = model(input_ids=ids, labels=ids, use_cache=False).loss
    return loss


class Course:
    """One run of training: the model, its trained parameters, their masters, the optimizer and the loss scale."""

    def __init__(self, model: Any, trained: Mapping[str, Any], learning_rate: float) -> None:
        self.model, self.trained = model, dict(trained)
        first = next(iter(self.trained.values()))
        self.masters: dict[str, Any] = {
            name: parameter.detach().to(torch.float32).requires_grad_() if parameter.dtype in HALF else parameter
            for name, parameter in self.trained.items()
        }
        self.optimizer = torch.optim.AdamW(self.masters.values(), lr=learning_rate, weight_decay=0.0, foreach=False)
        scaled = any(parameter.dtype is torch.float16 for parameter in self.trained.values())
        self.scaler = torch.amp.GradScaler(first.device.type, enabled=scaled)
        self.scale_start = float(self.scaler.get_scale())
        self.overflows = 0
        self.gave_up = False
        self.choices: Sequence[torch.Tensor] | None = None
        """Expert choices that the next passes are forced to take; None: they choose, and `chosen` has what."""
        self.chosen: tuple[torch.Tensor, ...] = ()
        self.decisions = self.differing = 0

    def step(self, ids: torch.Tensor, keep: bool = False) -> tuple[float | None, Tensors]:
        """One optimizer step; the loss before it and, with `keep`, the unscaled gradients on the host."""
        while True:
            loss = self._backward(ids)
            self.scaler.unscale_(self.optimizer)
            kept = host_gradients(self.masters) if keep else {}
            before = self.scaler.get_scale()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            overflowed = self.scaler.is_enabled() and self.scaler.get_scale() < before
            self.overflows += overflowed
            self.gave_up = self.overflows > MOST_OVERFLOWS
            if not overflowed or self.gave_up:
                break
        self._clear()
        self._hand_down()
        return finite(float(loss.detach())), kept

    def _backward(self, ids: torch.Tensor) -> torch.Tensor:
        """Loss, and its (scaled) gradients in the masters."""
        self._clear()
        loss = self._forward(ids)
        self.scaler.scale(loss).backward()
        for name, parameter in self.trained.items():
            master = self.masters[name]
            if master is not parameter and parameter.grad is not None:
                master.grad = parameter.grad.to(master.dtype)
                parameter.grad = None
        return loss

    def _forward(self, ids: torch.Tensor) -> torch.Tensor:
        if self.choices is None:
            with RecordedChoices() as recorded:
                loss = loss_of(self.model, ids)
            self.chosen = tuple(recorded.chosen)
            return loss
        with forcing(self.choices) as forced:
            loss = loss_of(self.model, ids)
        self.decisions += forced.decisions
        self.differing += forced.differing
        return loss

    def loss(self, ids: torch.Tensor) -> float | None:
        """The loss at the present parameters."""
        with torch.no_grad():
            return finite(float(self._forward(ids)))

    def gradients(self, ids: torch.Tensor) -> Tensors:
        """Unscaled gradients on the host at the present parameters, without a step. A scale that overflows is halved."""
        while True:
            self._backward(ids)
            scale = float(self.scaler.get_scale())
            kept = {name: gradient / scale for name, gradient in host_gradients(self.masters).items()}
            whole = all(bool(torch.isfinite(gradient).all()) for gradient in kept.values())
            if whole or not self.scaler.is_enabled() or self.gave_up:
                break
            self.scaler.update(scale / 2)
            self.overflows += 1
            self.gave_up = self.overflows > MOST_OVERFLOWS
        self._clear()
        return kept

    def take(self, values: Tensors) -> None:
        """Set the parameters to these values."""
        with torch.no_grad():
            for name, value in values.items():
                self.masters[name].copy_(value)
        self._hand_down()

    def values(self) -> Tensors:
        """The masters on the host."""
        return {name: master.detach().to("cpu", copy=True) for name, master in self.masters.items()}

    def scaling(self) -> Scaling | None:
        """What the loss scale did; None where the dtype needs none."""
        if not self.scaler.is_enabled():
            return None
        return Scaling(self.scale_start, float(self.scaler.get_scale()), self.overflows, self.gave_up)

    def _clear(self) -> None:
        for parameter in (*self.masters.values(), *self.trained.values()):
            parameter.grad = None

    def _hand_down(self) -> None:
        with torch.no_grad():
            for name, parameter in self.trained.items():
                if self.masters[name] is not parameter:
                    parameter.copy_(self.masters[name])


def host_gradients(parameters: Mapping[str, Any]) -> Tensors:
    """Copies of the gradients on the host; a parameter without one is left out."""
    return {name: one.grad.detach().to("cpu", copy=True) for name, one in parameters.items() if one.grad is not None}
