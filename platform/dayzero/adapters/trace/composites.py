"""Composites and fused kernels that the code names, kept by their own names above their parts. For child processes only."""

import ast
import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from dayzero.adapters.trace.counting import tensors_in
from dayzero.adapters.trace.recording import Recorder

_COMPOSITES: Mapping[Any, str] = {
    torch.nn.functional.scaled_dot_product_attention: "aten.scaled_dot_product_attention.default",
    torch.nn.functional.rms_norm: "aten.rms_norm.default",
    torch.nn.functional.cross_entropy: "aten.cross_entropy_loss.default",
}
_FROM_HUB = ("use_kernel_forward_from_hub", "use_kernel_func_from_hub")
_FROM_PACKAGE = "use_kernel_func_from_hub_with_fallback"


class CompositeRecorder(TorchFunctionMode):  # type: ignore[misc]
    """Notes torch's own fused composites by name, above the parts that the dispatcher sees."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = _COMPOSITES.get(func)
        if name is None:
            return func(*args, **kwargs)
        return _as_composite(self._recorder, name, func, args, kwargs)


def _as_composite(recorder: Recorder, name: str, run: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call it with what it runs noted below that name."""
    outputs: list[Any] = []
    with recorder.composite(name, tensors_in((args, kwargs)), outputs):
        out = run(*args, **kwargs)
        outputs.extend(tensors_in(out))
    return out


@dataclass
class NamedKernels:
    """Kernels that the modelling code names by decorators: for classes and functions of one source file.

    A layer from the hub is `hub.NAME`, a function that a package has is `PACKAGE.NAME`.
    """

    classes: dict[str, str] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)


@functools.cache
def kernels_named_in(path: str) -> NamedKernels:
    """The names in one source file; none where it cannot be read."""
    found = NamedKernels()
    try:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return found
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            for decorator in node.decorator_list:
                name = _kernel_name(decorator)
                if name is not None:
                    (found.classes if isinstance(node, ast.ClassDef) else found.functions)[node.name] = name
    return found


def _kernel_name(decorator: ast.expr) -> str | None:
    if not isinstance(decorator, ast.Call) or not isinstance(decorator.func, ast.Name):
        return None
    words = [argument.value for argument in decorator.args if isinstance(argument, ast.Constant)]
    texts = [word for word in words if isinstance(word, str)]
    if decorator.func.id in _FROM_HUB and texts:
        return f"hub.{texts[0]}"
    if decorator.func.id == _FROM_PACKAGE and len(texts) > 1:
        return f"{texts[1]}.{texts[0]}"
    return None


class KernelScopes:
    """Marks the named kernels of a modelling module. `recorder` is who is told; nobody while it is None."""

    def __init__(self) -> None:
        self.recorder: Recorder | None = None

    @contextmanager
    def named_functions(self) -> Iterator[None]:
        """Named functions of all loaded modelling code tell when they run; models built meanwhile take them with them."""
        replaced: list[tuple[Any, str, Any]] = []
        for module_name, module in list(sys.modules.items()):
            if module_name.startswith("transformers.models.") and ".modeling_" in module_name:
                for name, kernel in kernels_named_in(_file(module_name)).functions.items():
                    original = vars(module).get(name)
                    if callable(original):
                        replaced.append((module, name, original))
                        setattr(module, name, self._told(kernel, original))
        try:
            yield
        finally:
            for module, name, original in replaced:
                setattr(module, name, original)

    def layer_name(self, module: torch.nn.Module) -> str | None:
        """The kernel that the module's class is named for, or None."""
        for kind in type(module).__mro__:
            name = kernels_named_in(_file(kind.__module__)).classes.get(kind.__name__)
            if name is not None:
                return name
        return None

    def _told(self, kernel: str, run: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(run)
        def told(*args: Any, **kwargs: Any) -> Any:
            if self.recorder is None:
                return run(*args, **kwargs)
            return _as_composite(self.recorder, kernel, run, args, kwargs)

        return told


def _file(module_name: str) -> str:
    if not module_name.startswith("transformers."):
        return ""
    return getattr(sys.modules.get(module_name), "__file__", None) or ""
