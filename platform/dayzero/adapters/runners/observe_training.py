"""TRAINING: each layer's backward and a few steps of a fine-tune (full, LoRA), in higher precision, in native dtype, on the
target.

Memory: the three models at once for the backward; then one at a time with masters, gradients and optimizer (20 bytes a
parameter in half precision), and the reference's gradients beside (8 bytes a trained parameter). The optimizer runs where the
model does.
"""

import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.backward_layers import BackwardRun
from dayzero.adapters.runners.bridge_making import install
from dayzero.adapters.runners.directions import by_module, module_of
from dayzero.adapters.runners.figures import dtype_name, finite
from dayzero.adapters.runners.forced_choices import RecordedChoices
from dayzero.adapters.runners.lora import with_adapters
from dayzero.adapters.runners.placing import device_for, on, placed
from dayzero.adapters.runners.three_ways import make_target, path_of, reference_dtype
from dayzero.adapters.runners.training import OPTIMIZER, Course, Tensors, trainable, without_chance
from dayzero.domain.observed_training import GradientError, TrainingObserved, TrainingRun
from dayzero.domain.runs import RunRequest
from dayzero.errors import BadInputError

TOKENS, STEPS = 96, 6
LEARNING_RATES = {"full": 1e-4, "lora": 1e-3}
"""What is usual for each method: adapters start at zero and take ten times more (Hu et al. 2021; Dettmers et al. 2023)."""
METHODS = {"full": trainable, "lora": with_adapters}


def observe_training(request: RunRequest) -> TrainingObserved:
    """The packaged text's first tokens, equal at every step. Options `tokens`, `steps`, `compile`, `methods` (full, lora)."""
    began = time.monotonic()
    loading.quiet()
    folder = loading.model_folder(request)
    config = loading.read_config(folder)
    dtype = loading.native_dtype(config, request.dtype)
    given = loading.text_tokens(folder, config, loading.packaged_text()[1], loading.option_int(request, "tokens", TOKENS, 2))
    task = _Task(folder, dtype, given.ids, request, device_for(request), loading.option_int(request, "steps", STEPS, 2))
    install(request.bridges, task.device)
    methods = _methods(request)
    wide, native = task.wide(), task.native()
    with task.target() as target:
        for model in (wide, native, target.model):
            trainable(model)
        backward = BackwardRun(wide, native, target.model, given.ids, dtype)
        layers = backward.all_layers()
    del wide, native
    runs = tuple(_run(task, method) for method in methods)
    return TrainingObserved(
        dtype_name(dtype),
        dtype_name(reference_dtype(dtype)),
        target.path,
        target.reference_path,
        given.ids.shape[1],
        given.source,
        OPTIMIZER,
        layers,
        tuple(backward.suspects),
        runs,
        request.custom_operators,
        time.monotonic() - began,
    )


def _methods(request: RunRequest) -> tuple[str, ...]:
    names = tuple(name.strip() for name in str(request.options.get("methods", "full,lora")).split(",") if name.strip())
    unknown = [name for name in names if name not in METHODS]
    if unknown or not names:
        raise BadInputError(f"no training method is called {unknown or names}.", remedy="Write full, lora or full,lora.")
    return names


@dataclass(frozen=True, slots=True)
class _TrainingTarget:
    """The target's model and the paths that it and the reference take, in words."""

    model: Any
    path: str
    reference_path: str


@dataclass(frozen=True, slots=True)
class _Task:
    """What is trained on what, and how each way's model is made."""

    folder: Path
    dtype: torch.dtype
    ids: torch.Tensor
    request: RunRequest
    device: torch.device
    steps: int

    def native(self) -> Any:
        """The reference in native dtype, eager."""
        return without_chance(loading.load_model(self.folder, self.dtype))

    def wide(self) -> Any:
        """The same, widened exactly."""
        return self.native().to(reference_dtype(self.dtype))

    def target(self) -> AbstractContextManager[_TrainingTarget]:
        """The target as a context: plugins are in it as long as it is open."""
        return _OpenTarget(self)


class _OpenTarget(AbstractContextManager[_TrainingTarget]):
    """A model of its own on other kernels, with the request's plugins, its layers compiled where that is asked and works."""

    def __init__(self, task: _Task) -> None:
        self._task = task

    def __enter__(self) -> _TrainingTarget:
        task = self._task
        native = task.native()
        reference_path = f"eager, {path_of(native)}"
        # A target on the host shares its weights with what it is made from; that is a model of its own here.
        model = without_chance(make_target(native, task.device))
        self._plugins = loading.plugins_installed(model, task.request)
        self._plugins.__enter__()
        how = _compiled(model, task)
        return _TrainingTarget(model, f"{how}, {path_of(model)}{on(task.device)}", reference_path)

    def __exit__(self, *raised: Any) -> None:
        self._plugins.__exit__(*raised)


def _compiled(model: Any, task: _Task) -> str:
    """Compile each layer with its backward in place; eager, and said so, where that is off, in vain or does not work."""
    if task.request.options.get("compile", False) is not True:
        return "eager"
    _, layers = loading.decoder_layers(model)
    torch._dynamo.config.recompile_limit = max(16, 2 * len(layers))
    try:
        with RecordedChoices() as recorded, torch.no_grad():
            model(input_ids=placed(task.ids, task.device), use_cache=False)
        if recorded.chosen:
            return "eager (routing is forced, which the compiler does not see)"
        for layer in layers:
            layer.compile(dynamic=False)
        trainable(model)
        model(input_ids=placed(task.ids, task.device), use_cache=False).logits.float().sum().backward()
    except Exception as error:  # noqa: BLE001 - whatever a compiler raises, the path becomes another one and says so
        for layer in layers:
            layer._compiled_call_impl = None
        print(f"compile: {type(error).__name__}: {error}")
        return f"eager (compilation failed: {type(error).__name__})"
    finally:
        model.zero_grad(set_to_none=True)
    return "compiled layer by layer (inductor)"


@dataclass(frozen=True, slots=True)
class _Trained:
    """What one way's training gave, on the host: losses, gradients at the first step and at the reference's last parameters,
    parameters before and after, and the choices of experts in each pass (the reference's own)."""

    losses: tuple[float | None, ...]
    first: Tensors
    after: Tensors
    start: Tensors
    end: Tensors
    choices: tuple[tuple[torch.Tensor, ...], ...]
    course: Course


def _run(task: _Task, method: str) -> TrainingRun:
    """One method three ways, one after the other."""
    reference = _train(task, method, task.wide(), task.ids, None)
    native = _train(task, method, task.native(), task.ids, reference)
    with task.target() as opened:
        target = _train(task, method, opened.model, placed(task.ids, task.device), reference)
    still = tuple(
        name
        for name, end in reference.end.items()
        if not torch.equal(end, reference.start[name]) and torch.equal(target.end[name], target.start[name])
    )
    return TrainingRun(
        method,
        sum(value.numel() for value in reference.end.values()),
        task.steps,
        LEARNING_RATES[method],
        reference.losses,
        native.losses,
        target.losses,
        _compared(target.first, native.first, reference.first),
        _compared(target.after, native.after, reference.after),
        _moved(reference),
        _moved(native),
        _moved(target),
        native.losses == target.losses and _equal(native.first, target.first),
        still,
        tuple(name for name in reference.first if name not in target.first),
        native.course.scaling(),
        target.course.scaling(),
        target.course.decisions,
        target.course.differing,
    )


def _train(task: _Task, method: str, model: Any, ids: torch.Tensor, reference: _Trained | None) -> _Trained:
    """Train one way on its own trajectory, then take gradients at the reference's last parameters, rounded to native dtype."""
    course = Course(model, METHODS[method](model), LEARNING_RATES[method])
    start = course.values()
    losses: list[float | None] = []
    first: Tensors = {}
    choices: list[tuple[torch.Tensor, ...]] = []

    def choose() -> None:
        course.choices = None if reference is None else reference.choices[len(choices)]

    for step in range(task.steps):
        choose()
        loss, gradients = course.step(ids, keep=step == 0)
        first = gradients or first
        losses.append(loss)
        choices.append(course.chosen)
    choose()
    losses.append(course.loss(ids))
    choices.append(course.chosen)
    end = course.values()
    last = end if reference is None else reference.end
    course.take({name: value.to(task.dtype).to(value.dtype) for name, value in last.items()})
    choose()
    after = course.gradients(ids)
    choices.append(course.chosen)
    return _Trained(tuple(losses), first, after, start, end, tuple(choices), course)


def _compared(target: Tensors, native: Tensors, exact: Tensors) -> tuple[GradientError, ...]:
    """Gradients by module against the higher precision, the whole first."""
    ours, plain = by_module(target, exact, module_of), by_module(native, exact, module_of)
    return tuple(GradientError(module, ours[module], plain[module]) for module in ours)


def _equal(left: Tensors, right: Tensors) -> bool:
    return left.keys() == right.keys() and all(torch.equal(value, right[name]) for name, value in left.items())


def _moved(trained: _Trained) -> float | None:
    """‖change‖ / ‖parameters‖."""
    change = sum(float((end.double() - trained.start[name].double()).pow(2).sum()) for name, end in trained.end.items())
    size = sum(float(value.double().pow(2).sum()) for value in trained.start.values())
    return finite((change / size) ** 0.5) if size else None
