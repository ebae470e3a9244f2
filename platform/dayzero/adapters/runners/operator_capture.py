"""Each distinct operator call, as it is dispatched, against the same call in float64."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from dayzero.adapters.runners.call_sampler import CallSampler, Key, Ways, argument
from dayzero.adapters.runners.figures import dtype_name, finite, share_within, tensor_error
from dayzero.adapters.runners.placing import HOST, placed
from dayzero.adapters.runners.sample_figures import ulps
from dayzero.domain.bridges import Recipe
from dayzero.domain.observations import OperatorError

FLOATS = (torch.bfloat16, torch.float16, torch.float32)
UNINITIALISED = ("aten.empty", "aten.new_empty", "aten.empty_like", "aten.empty_strided", "aten.new_empty_strided")
LARGEST_ELEMENTS = 1 << 27


def widen(value: Any) -> Any:
    """Floating tensors and dtypes as float64; other values as they are. Tensors are copied to the host, and not shared."""
    if isinstance(value, torch.Tensor):
        host = value.to(HOST)
        return host.to(torch.float64) if value.dtype in FLOATS else host.clone()
    if isinstance(value, torch.device):
        return HOST
    if isinstance(value, torch.dtype) and value in FLOATS:
        return torch.float64
    return value


def shape_class(shapes: list[tuple[int, ...]], rows: int) -> str:
    """Shapes with the number of tokens written as T, and with the one that a decode step adds as S, so that prefill of any
    length is one class."""
    symbols = {rows: "T", rows + 1: "S"} if rows > 1 else {}
    return " ".join("x".join(symbols.get(size, str(size)) for size in shape) or "scalar" for shape in shapes)


class OperatorCapture(TorchDispatchMode):  # type: ignore[misc]
    """Compares every distinct (operator, dtypes, shape class) once, while the model runs.

    `replaced` maps a custom operator to the ATen operator in whose place it stands: that one is its reference, for a
    custom operator recomputed by itself would only agree with itself. `bridges` say how often theirs round inside. `sampler`
    runs the calls on drawn inputs too. An operator without a kernel on another device than the host is computed by the host in
    its place, noted as missing, and the run goes on to the others.
    """

    def __init__(
        self,
        tokens: int,
        module_now: Callable[[], str],
        replaced: Mapping[str, str],
        bridges: tuple[Recipe, ...] = (),
        sampler: CallSampler | None = None,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.module_now = module_now
        self.replaced = replaced
        self.bridged = {recipe.operator: recipe.inner_roundings for recipe in bridges}
        self.sampler = sampler
        self.seen: dict[tuple[str, tuple[str, ...], str], OperatorError] = {}
        self.device = HOST if sampler is None else sampler.device
        self._missing: dict[tuple[str, tuple[str, ...]], str] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = str(func)
        tensors = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, torch.Tensor)]
        dtypes = tuple(dtype_name(tensor.dtype) for tensor in tensors)
        key = (name, dtypes, shape_class([tuple(tensor.shape) for tensor in tensors], self.tokens))
        if key in self.seen:
            return self._run(func, key, args, kwargs)
        why = self._incomparable(func, name, tensors, args, kwargs)
        wide = None if why else tree_map(widen, (args, kwargs))
        result = self._run(func, key, args, kwargs)
        lacking = self._missing.get(key[:2])
        if lacking is not None:
            self.seen[key] = OperatorError(*key, self.module_now(), None, lacking, 0, missing=True)
            return result
        row = self.seen[key] = self._compare(key, func, wide, result, why)
        if self.sampler is not None and row.reference is not None:
            self._sample(self.sampler, func, key, row, (args, kwargs))
        return result

    def _sample(self, sampler: CallSampler, func: Any, key: Key, row: OperatorError, call: tuple[Any, Any]) -> None:
        """The call on drawn inputs; `row.reference` names what it is held against."""
        own = row.reference == key[0]
        reference = _resolve(row.reference or key[0], func)
        ways = Ways(func, func if own else reference, reference, None if own else len(reference._schema.arguments))
        shared = own and key[0] not in self.bridged
        sampler.take(key, ways, call, row.module, self._roundings(key[0]), shared=shared)

    def _run(self, func: Any, key: Key, args: Any, kwargs: Any) -> Any:
        """The call on the target; by the host where the target has no kernel of it in these dtypes."""
        if key[:2] not in self._missing:
            try:
                return func(*args, **kwargs)
            except NotImplementedError as error:
                if self.device == HOST or func._schema.is_mutable:
                    raise
                self._missing[key[:2]] = str(error).strip().splitlines()[0][:300]
        given = tree_map(_on_host, (args, kwargs))
        return placed(func(*given[0], **given[1]), self.device)

    def _roundings(self, name: str) -> int:
        return max(inner_roundings(name), self.bridged.get(name, 0))

    def _incomparable(self, func: Any, name: str, tensors: list[torch.Tensor], args: Any, kwargs: Any) -> str | None:
        if name.rsplit(".", 1)[0] in UNINITIALISED:
            return "returns uninitialised memory"
        if torch.Tag.nondeterministic_seeded in func.tags and argument(func, args, kwargs, "dropout_p") != 0.0:
            return "draws random numbers"
        if not name.startswith("aten.") and name not in self.replaced:
            return "a custom operator that names no reference"
        if sum(tensor.numel() for tensor in tensors) > LARGEST_ELEMENTS:
            return f"more than {LARGEST_ELEMENTS} elements in its inputs"
        return None

    def _compare(
        self, key: tuple[str, tuple[str, ...], str], func: Any, wide: Any, result: Any, why: str | None
    ) -> OperatorError:
        name, dtypes, shapes = key
        module = self.module_now()
        if why is not None:
            return OperatorError(name, dtypes, shapes, module, None, why, 0)
        reference_name = self.replaced.get(name, name)
        try:
            reference = _resolve(reference_name, func)
            # A replacement may take options of its own after the arguments of the operator whose place it takes.
            own = reference_name == name
            given = wide[0] if own else wide[0][: len(reference._schema.arguments)]
            expected = reference(*given, **(wide[1] if own else {}))
        except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
            first = str(error).strip().splitlines()[0][:200]
            return OperatorError(name, dtypes, shapes, module, None, f"the reference does not run in float64: {first}", 0)
        if name == "aten.topk.default" and argument(func, wide[0], wide[1], "sorted") is False:
            # In any order: each implementation has its own, so both are put in the order of their values.
            dim = argument(func, wide[0], wide[1], "dim")
            result, expected = (_ordered(placed(pair, HOST), dim) for pair in (result, expected))
        blank = OperatorError(name, dtypes, shapes, module, reference_name, None, 0)
        return _figures(blank, result, expected, self._roundings(name))


def _ordered(pair: Any, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Values and indices along the dimension, the largest value first."""
    values, indices = pair
    order = values.argsort(dim=dim, descending=True, stable=True)
    return values.take_along_dim(order, dim), indices.take_along_dim(order, dim)


def _on_host(leaf: Any) -> Any:
    if isinstance(leaf, torch.device):
        return HOST
    return leaf.to(HOST) if isinstance(leaf, torch.Tensor) else leaf


def _grouped_mm(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor | None = None, *_rest: Any, **_more: Any) -> torch.Tensor:
    """Rows of a [rows, k] in groups that end at offs, each times its b [groups, k, n]; the kernel knows no float64."""
    if a.dim() != 2 or b.dim() != 3 or offs is None:
        raise NotImplementedError("only 2D by 3D grouped products have a float64 reference here")
    ends = [0, *(int(end) for end in offs)]
    parts = [a[begin:end] @ b[group] for group, (begin, end) in enumerate(itertools.pairwise(ends))]
    product = torch.cat(parts)
    if product.shape[0] != a.shape[0]:
        raise NotImplementedError("rows beyond the last group are undefined")
    return product


WRITTEN_OUT = {"aten._grouped_mm.default": _grouped_mm}
"""References for operators whose kernels refuse float64."""


def _resolve(name: str, func: Any) -> Any:
    if name in WRITTEN_OUT:
        return WRITTEN_OUT[name]
    if name == str(func):
        return func
    namespace, operator, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), operator), overload)


def inner_roundings(operator: str) -> int:
    """How often the operator rounds intermediate results to its dtype by design.

    Fused attention rounds the attention weights before their product with the values (ATen, FlashAttentionKernel.cpp: the
    weights are converted to the reduced type of the inputs for the second matrix product). A logsumexp is put together from
    operators of its dtype: difference to the maximum, exponential, sum and logarithm (ATen, ReduceOps.cpp, logsumexp_out_impl).
    """
    if "logsumexp" in operator:
        return 4
    return 1 if "scaled_dot_product" in operator else 0


def _figures(blank: OperatorError, result: Any, expected: Any, roundings: int) -> OperatorError:
    """The blank row with the figures of the worst of the operator's outputs."""
    result = placed(result, HOST)
    pairs = [
        (left, right)
        for left, right in zip(tree_flatten(result)[0], tree_flatten(expected)[0], strict=True)
        if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor) and left.numel()
    ]
    if not pairs:
        return _row(blank, None, "returns no tensor", 0)
    if any(left.shape != right.shape for left, right in pairs):
        return _row(blank, blank.reference, None, sum(left.numel() for left, _ in pairs), share=0.0)
    floating = [(left, right) for left, right in pairs if left.is_floating_point()]
    exact = all(torch.equal(left, right) for left, right in pairs if not left.is_floating_point())
    if not floating:
        return _row(blank, blank.reference, None, sum(left.numel() for left, _ in pairs), exact=exact)
    errors = [tensor_error(left, right) for left, right in floating]
    return OperatorError(
        blank.operator,
        blank.dtypes,
        blank.shape_class,
        blank.module,
        blank.reference,
        None,
        sum(left.numel() for left, _ in pairs),
        max((error.max_abs for error in errors if error.max_abs is not None), default=None),
        max((error.rms_relative for error in errors if error.rms_relative is not None), default=None),
        finite(min(share_within(left, right, roundings) for left, right in floating)),
        exact if len(floating) < len(pairs) else None,
        sum(error.nonfinite for error in errors),
        *_ulps(floating),
    )


def _ulps(floating: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[float | None, float | None]:
    """The largest error in units of the last place and the largest share beyond one, over the outputs."""
    found = []
    for left, right in floating:
        error = left.to(torch.float64) - right.to(torch.float64)
        known = error.isfinite() & (left.dtype != torch.float64)
        if bool(known.any()):
            found.append(ulps(error[known].abs(), right.to(torch.float64)[known], left.dtype, int(known.sum())))
    return (
        max((largest for largest, _ in found if largest is not None), default=None),
        max((beyond for _, beyond in found if beyond is not None), default=None),
    )


def _row(
    blank: OperatorError, reference: str | None, why: str | None, n: int, share: float | None = None, exact: bool | None = None
) -> OperatorError:
    return OperatorError(
        blank.operator, blank.dtypes, blank.shape_class, blank.module, reference, why, n, share_within=share, exact=exact
    )
