"""BRIDGE: every candidate for one operator, on the device, on the model's own shapes, against float64."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.bridge_inputs import Input, dtypes_of, inputs_for
from dayzero.adapters.runners.bridge_making import Implementation, handle_of, inner_roundings, install, offers, source_of
from dayzero.adapters.runners.figures import finite, rows, share_within, tensor_error
from dayzero.adapters.runners.operator_capture import _resolve, widen
from dayzero.adapters.runners.placing import HOST, device_for, placed
from dayzero.domain.bridges import BridgeCase, BridgeKind, BridgesObserved, Candidate, Recipe
from dayzero.domain.runs import RunRequest
from dayzero.errors import BadInputError
from dayzero.stages.precision import limits as precision

TIMED_CALLS = 5


def observe_bridge(request: RunRequest) -> BridgesObserved:
    """Try every candidate; BadInputError when the request names no operator. Bridges of the request are there meanwhile."""
    began = time.monotonic()
    loading.quiet()
    if request.gap is None:
        raise BadInputError("the request names no operator to bridge.", remedy="Give gap.")
    device = device_for(request)
    install(request.bridges, device)
    handle = handle_of(request.gap.operator)
    made, skipped = _references(handle, request)
    with torch.no_grad():
        candidates = tuple(
            _tried(recipe, run, why, made, device) for recipe, run, why in offers(request, request.gap.operator, device)
        )
    return BridgesObserved(request.gap.operator, candidates, tuple(skipped), time.monotonic() - began)


class _Reference:
    """An input with its results in float64 and by the host's own operator."""

    def __init__(self, given: Input, exact: Any, native: Any) -> None:
        self.given, self.exact, self.native = given, exact, native


def _references(handle: Any, request: RunRequest) -> tuple[list[_Reference], list[str]]:
    """Inputs that the operator accepts on the host, with their results; and why others are left out."""
    assert request.gap is not None, "checked before"
    found: list[_Reference] = []
    skipped: list[str] = []
    reference = _resolve(request.gap.operator, handle)
    for call, inputs in inputs_for(handle, request.gap):
        if isinstance(inputs, str):
            skipped.append(inputs)
            continue
        for given in inputs:
            try:
                with torch.no_grad():
                    wide_args, wide_kwargs = tree_map(widen, (given.args, given.kwargs))
                    exact = reference(*wide_args, **wide_kwargs)
                    found.append(_Reference(given, exact, handle(*given.args, **given.kwargs)))
            except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
                skipped.append(f"{call.shape_class}, {given.words}: {_first_line(error)}")
    return found, skipped


def _tried(recipe: Recipe, run: Implementation | None, why: str, made: list[_Reference], device: torch.device) -> Candidate:
    if run is None:
        return Candidate(recipe, why)
    cases = tuple(_case(run, reference, device) for reference in made)
    rounded = 0
    if made and not any(case.raised for case in cases):
        if recipe.kind is not BridgeKind.COMPILED:
            # Generated code keeps what is between in float32.
            rounded = inner_roundings(run, *placed((made[0].given.args, made[0].given.kwargs), device))
        bridge_s = _seconds(run, made[0].given, device)
        composite_s = _seconds(handle_of(recipe.operator), made[0].given, HOST)
    else:
        bridge_s = composite_s = None
    known = Recipe(recipe.operator, recipe.kind, recipe.origin, rounded)
    return Candidate(known, "", source_of(recipe, run), cases, bridge_s, composite_s)


def _case(run: Implementation, reference: _Reference, device: torch.device) -> BridgeCase:
    given = reference.given
    blank = BridgeCase(given.words, dtypes_of(given), given.shapes, 0)
    try:
        args, kwargs = placed((given.args, given.kwargs), device)
        out = placed(run(*args, **kwargs), HOST)
    except Exception as error:  # noqa: BLE001 - whatever an implementation raises is what is to be known of it
        return BridgeCase(given.words, blank.dtypes, given.shapes, 0, raised=f"{type(error).__name__}: {_first_line(error)}")
    triples = list(zip(_tensors(out), _tensors(reference.exact), _tensors(reference.native), strict=False))
    if not triples or any(left.shape != right.shape for left, right, _native in triples):
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in _tensors(out)) or "no tensor"
        return BridgeCase(given.words, blank.dtypes, given.shapes, 0, raised=f"another result: {shapes}")
    floats = [(left, right, native) for left, right, native in triples if left.is_floating_point()]
    integers = [(left, right) for left, right, _native in triples if not left.is_floating_point()]
    errors = [(tensor_error(left, right), tensor_error(native, right)) for left, right, native in floats]
    dtype = blank.dtypes[0]
    return BridgeCase(
        given.words, blank.dtypes, given.shapes, sum(left.numel() for left, _right, _native in triples),
        max((error.rms_relative for error, _ in errors if error.rms_relative is not None), default=None),
        max((error.rms_relative for _, error in errors if error.rms_relative is not None), default=None),
        max((_ratio(left, right, native, dtype) for left, right, native in floats), default=None),
        min((share_within(left, right) for left, right, _native in floats), default=None),
        all(torch.equal(left, right) for left, right in integers) if integers else None,
        sum(error.nonfinite - native.nonfinite for error, native in errors if error.nonfinite > native.nonfinite),
    )  # fmt: skip


def _ratio(left: torch.Tensor, right: torch.Tensor, native: torch.Tensor, dtype: str) -> float:
    """The largest element error over max(largest native error of its row, k · eps · rms of the row); infinite if not finite."""
    exact = rows(right)
    error, own = (rows(left) - exact).abs().amax(-1), (rows(native) - exact).abs().amax(-1)
    floor = precision.K * precision.EPS.get(dtype, 0.0) * exact.pow(2).mean(-1).sqrt()
    found = finite(float((error / torch.maximum(own, floor).clamp_min(1e-300)).max()))
    return float("inf") if found is None else found


def _seconds(run: Callable[..., Any], given: Input, device: torch.device) -> float | None:
    args, kwargs = placed((given.args, given.kwargs), device)
    taken: list[float] = []
    try:
        for _ in range(TIMED_CALLS):
            began = time.perf_counter()
            run(*args, **kwargs)
            taken.append(time.perf_counter() - began)
    except (RuntimeError, NotImplementedError):
        return None
    return statistics.median(taken)


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:300] if text else type(error).__name__
