"""Candidates for an operator that a device lacks: torch's composites and decompositions, torch's compiler, and plugins."""

import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch.utils._python_dispatch import TorchDispatchMode

from dayzero.domain.bridges import BridgeKind, Recipe
from dayzero.domain.runs import RunRequest
from dayzero.errors import BadInputError, DayzeroError
from dayzero.registry import operator_bridge, parse_plugin_setting

Implementation = Callable[..., Any]

IMPLICIT, EXPLICIT = "CompositeImplicitAutograd", "CompositeExplicitAutograd"
TABLE = "torch's decomposition table"
COMPILER = "torch.compile"
LONGEST_SOURCE = 40_000
"""Characters of generated code that are kept."""
_KEPT: list[torch.library.Library] = []
"""Registrations last as long as their library objects, so as long as the process."""


def handle_of(name: str) -> Any:
    """aten.mm.default as torch's operator; BadInputError for a name that torch does not know."""
    try:
        namespace, base, overload = name.split(".")
        return getattr(getattr(getattr(torch.ops, namespace), base), overload)
    except (ValueError, AttributeError) as error:
        raise BadInputError(f"torch knows no operator {name}.", remedy="Name it as in `dayzero ops`.") from error


def offers(request: RunRequest, operator: str, device: torch.device) -> Iterator[tuple[Recipe, Implementation | None, str]]:
    """Every way to make the operator: its recipe, the implementation, or None with the reason why there is none."""
    handle = handle_of(operator)
    for text in request.custom_operators:
        made = _from_plugin(text, operator, request.platform)
        if made is not None:
            yield made
    origin = _composite_origin(handle)
    recipe = Recipe(operator, BridgeKind.DECOMPOSITION, origin or TABLE)
    yield recipe, make(recipe) if origin else None, "" if origin else "torch has no decomposition of it"
    recipe = Recipe(operator, BridgeKind.COMPILED, COMPILER)
    refusal = _uncompilable(device)
    yield recipe, None if refusal else make(recipe), refusal


def make(recipe: Recipe) -> Implementation:
    """The implementation that a recipe describes; BadInputError when it cannot be made here."""
    handle = handle_of(recipe.operator)
    if recipe.kind is BridgeKind.PLUGIN:
        setting = parse_plugin_setting(recipe.origin)
        bridge = operator_bridge(setting.name)
        if bridge is None or bridge.operator != recipe.operator:
            raise BadInputError(f"plugin {setting.name} is no bridge for {recipe.operator}.", remedy="Switch it off.")
        return bridge.implementation(setting.options)
    if recipe.kind is BridgeKind.COMPILED:
        return _compiled(handle)
    if recipe.origin == TABLE:
        return decomposition_table[handle]  # type: ignore[no-any-return]
    if recipe.origin.endswith(IMPLICIT):
        return handle.decompose  # type: ignore[no-any-return]
    return lambda *args, **kwargs: handle._op_dk(torch._C.DispatchKey.CompositeExplicitAutograd, *args, **kwargs)


def install(recipes: tuple[Recipe, ...], device: torch.device) -> None:
    """Register the implementations with torch.library for the device; they last as long as the process."""
    key = torch._C._dispatch_key_for_device(device.type)
    for recipe in recipes:
        library = torch.library.Library(recipe.operator.split(".")[0], "IMPL")
        with warnings.catch_warnings():
            # What is replaced is a refusal, or a kernel that the profile calls broken.
            warnings.simplefilter("ignore")
            library.impl(handle_of(recipe.operator), make(recipe), key, allow_override=True)
        _KEPT.append(library)


def source_of(recipe: Recipe, implementation: Implementation) -> str:
    """The implementation's text where it has one (of a compiled one the generated code), else where it comes from."""
    if recipe.kind is BridgeKind.COMPILED:
        return "\n".join(getattr(implementation, "generated", []))[:LONGEST_SOURCE]
    target = decomposition_table.get(handle_of(recipe.operator)) if recipe.origin == TABLE else implementation
    try:
        return inspect.getsource(inspect.unwrap(target))
    except (OSError, TypeError):
        return f"{recipe.origin} of torch {torch.__version__}"


def _from_plugin(text: str, operator: str, platform: str) -> tuple[Recipe, Implementation | None, str] | None:
    setting = parse_plugin_setting(text)
    recipe = Recipe(operator, BridgeKind.PLUGIN, text)
    try:
        bridge = operator_bridge(setting.name)
        if bridge is None or bridge.operator != operator:
            return None
        if bridge.platforms and platform not in bridge.platforms:
            return recipe, None, f"it is for {', '.join(bridge.platforms)}, not {platform}"
        return recipe, bridge.implementation(setting.options), ""
    except DayzeroError as error:
        return recipe, None, str(error)


def _composite_origin(handle: Any) -> str | None:
    """Where torch's own parts of the operator come from; None where it has none."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    for kind in (IMPLICIT, EXPLICIT):
        if has(handle.name(), kind):
            return f"torch's composite, {kind}"
    return TABLE if handle in decomposition_table else None


def _uncompilable(device: torch.device) -> str:
    from torch._inductor.codegen.common import get_scheduling_for_device, init_backend_registration

    init_backend_registration()
    return "" if get_scheduling_for_device(device.type) else f"torch's compiler generates no code for {device.type}"


def _compiled(handle: Any) -> Implementation:
    """The operator as generated code; RuntimeError, at its first call, where the compiler would call the operator itself."""
    compiled = torch.compile(lambda *args, **kwargs: handle(*args, **kwargs), fullgraph=True, dynamic=False)
    checked: list[bool] = []
    generated: list[str] = []

    def run(*args: Any, **kwargs: Any) -> Any:
        if checked:
            return compiled(*args, **kwargs)
        from torch._inductor.utils import run_and_get_code

        out, code = run_and_get_code(compiled, *args, **kwargs)
        base = handle.name().partition("::")[2].partition(".")[0]
        if not code or any(re.search(rf"(torch\.ops\.aten|extern_kernels)\.{base}\b", text) for text in code):
            raise RuntimeError("the compiler generates no code for it: it would call the operator itself")
        checked.append(True)
        generated.extend(code)
        return out

    run.generated = generated  # type: ignore[attr-defined]
    return run


class _Rounding(TorchDispatchMode):  # type: ignore[misc]
    """Operators that compute floating results, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        view = any(item.alias_info is not None for item in func._schema.returns)
        if isinstance(out, torch.Tensor) and out.is_floating_point() and not view and args:
            self.names.append(str(func))
        return out


def inner_roundings(implementation: Implementation, args: list[Any], kwargs: dict[str, Any]) -> int:
    """How many different operators compute floating results on the way, but for the last: each rounds to its dtype once."""
    with _Rounding() as seen:
        implementation(*args, **kwargs)
    return max(0, len(set(seen.names)) - 1)
