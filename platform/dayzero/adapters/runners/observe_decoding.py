"""DECODING: prefill, a chunk behind it and single tokens with a cache, against the higher precision that sees all at once.

Every layer gets the reference's hidden states at every step. The cache that the target's steps read is filled by the target
itself, and once more by the reference: what is wrong with either is told apart.
"""

import time
from typing import Any

import torch
from torch.utils._pytree import tree_map

from dayzero.adapters.runners import loading, outer_parts, reaching
from dayzero.adapters.runners.bridge_making import install
from dayzero.adapters.runners.figures import dtype_name, rows, tensor_error
from dayzero.adapters.runners.layer_sources import as_source, open_source
from dayzero.adapters.runners.placing import HOST, device_for, on
from dayzero.adapters.runners.references import References
from dayzero.adapters.runners.stepping import Segment, Steps, copied, is_cache, run_steps
from dayzero.adapters.runners.suspects import judge_calls
from dayzero.adapters.runners.three_ways import make_target, path_of, reference_dtype, widened
from dayzero.domain.observations import ModuleError, PartError
from dayzero.domain.observed_decoding import DecodeErrors, DecodeLayerError
from dayzero.domain.runs import RunRequest
from dayzero.stages.precision import limits as precision

TOKENS, CHUNK, STEPS = 64, 4, 8


def observe_decoding(request: RunRequest) -> DecodeErrors:
    """All layers in cached decoding on the packaged text's first tokens."""
    began = time.monotonic()
    loading.quiet()
    folder = loading.model_folder(request)
    config = loading.read_config(folder)
    dtype = loading.native_dtype(config, request.dtype)
    tokens = loading.option_int(request, "tokens", reaching.prompt_tokens(config, TOKENS), CHUNK + STEPS + 2)
    given = loading.text_tokens(folder, config, loading.packaged_text()[1], tokens)
    device = device_for(request)
    install(request.bridges, device)
    source = open_source(request, folder, config, dtype)
    native = source.model
    patched = make_target(source, device, str(request.options.get("kernels", "fused")))
    prompt = segments_of(tokens)[0][1]
    if source.told().streamed:
        return _not_run(native, patched, dtype, prompt, given.source, "layers come from files, and each step needs them all")
    with loading.plugins_installed(patched, request) as replaced:
        run = _Run(native, patched, given.ids, dtype, dict(replaced), device)
        if not run.keeps_cache:
            return _not_run(native, patched, dtype, prompt, given.source, "the model keeps no cache to decode with")
        layers = tuple(run.layer(index) for index in range(len(run.native_layers)))
    return DecodeErrors(
        dtype_name(dtype),
        dtype_name(run.wide_dtype),
        f"eager, cached decoding, {path_of(patched)}{on(device)}",
        f"eager, cached decoding, {path_of(native)}",
        prompt,
        run.segments[1][1] - prompt,
        len(run.segments) - 2,
        given.source,
        layers,
        run.parts,
        tuple(run.suspects),
        reaching.paths_of(config, prompt),
        request.custom_operators,
        time.monotonic() - began,
        run.chunk_not_judged,
    )


def _not_run(native: Any, target: Any, dtype: torch.dtype, prompt: int, tokens_from: str, why: str) -> DecodeErrors:
    names = dtype_name(dtype), dtype_name(reference_dtype(dtype))
    return DecodeErrors(*names, path_of(target), path_of(native), prompt, 0, 0, tokens_from, (), not_run_because=why)


def segments_of(tokens: int, chunk: int = CHUNK) -> list[Segment]:
    """The prompt, a chunk behind it, and single tokens to the end."""
    prompt = tokens - CHUNK - STEPS
    return [(0, prompt), (prompt, prompt + chunk), *((at, at + 1) for at in range(prompt + chunk, tokens))]


class _Exact:
    """The higher precision on all tokens at once: what each layer is given (in native dtype) and what comes out."""

    def __init__(self, native: Any, ids: torch.Tensor, dtype: torch.dtype) -> None:
        references = References(as_source(native), ids, dtype)
        self.kwargs = references.wide_kwargs
        self.forced: list[torch.Tensor] = []
        self.outputs: list[torch.Tensor] = []
        self.undecided: list[torch.Tensor] = []
        for index, layer in enumerate(loading.decoder_layers(native)[1]):
            said = references.layer(index, layer)
            self.forced.append(said.given)
            self.outputs.append(said.exact)
            self.undecided.append(said.undecided)


class _Run:
    """The steps of the native reference and of the target, and what they are compared with."""

    def __init__(
        self, native: Any, target: Any, ids: torch.Tensor, dtype: torch.dtype, replaced: dict[str, str], device: torch.device
    ) -> None:
        self.native, self.ids, self.dtype, self.wide_dtype, self.device = native, ids, dtype, reference_dtype(dtype), device
        self.replaced = replaced
        self.path, self.native_layers = loading.decoder_layers(native)
        self.target_layers = loading.decoder_layers(target)[1]
        self.segments = segments_of(ids.shape[1])
        self.exact = _Exact(native, ids, dtype)
        self.suspects: list[ModuleError] = []
        self.parts: tuple[PartError, ...] = ()
        single = segments_of(ids.shape[1], chunk=1)
        self.plain = run_steps(native, ids, self.exact.forced, single)
        self.keeps_cache = bool(self.plain.caches[single[1]])
        self.chunk_not_judged: str | None = None
        if not self.keeps_cache:
            return
        self.chunk_not_judged = self._why_no_chunk(self.plain)
        self.segments = single if self.chunk_not_judged else self.segments
        if not self.chunk_not_judged:
            self.plain = run_steps(native, ids, self.exact.forced, self.segments)
        self.ours = run_steps(target, ids, self.exact.forced, self.segments)
        self.parts, given = self._outside()
        if given:
            self.ours = run_steps(target, ids, self.exact.forced, self.segments, given=given)
        self.handed: Steps | None = None
        if device == HOST:
            filled = copied(self.plain.caches[self.segments[1]])
            self.handed = run_steps(target, ids, self.exact.forced, self.segments[1:], filled, given)

    def _why_no_chunk(self, single: Steps) -> str | None:
        """Why the native reference says nothing of several tokens behind a cache, where `single` has one by one; None: it does.

        Some of the library's state space models begin anew there, and some of its linear attention refuses.
        """
        prompt, chunk = self.segments[:2]
        try:
            steps = run_steps(self.native, self.ids, self.exact.forced, [prompt, chunk])
        except (RuntimeError, ValueError, TypeError, IndexError) as refusal:
            return f"the reference itself refuses them ({str(refusal).splitlines()[0][:120]})"
        here = slice(*chunk)
        for index, given in enumerate(self.exact.forced):
            base, keep = rows(given[:, here]), ~self.exact.undecided[index][here]
            if base.shape[0] != keep.shape[0] or not bool(keep.any()):
                continue
            update = rows(self.exact.outputs[index][:, here]) - base
            error = tensor_error(rows(steps.joined(index, [chunk])) - base, update, keep)
            one_by_one = tensor_error(rows(single.joined(index, [(at, at + 1) for at in range(*chunk)])) - base, update, keep)
            if precision.far_beyond(error, one_by_one, dtype_name(self.dtype)):
                return f"the reference itself is wrong there at layer {index}"
        return None

    def _outside(self) -> tuple[tuple[PartError, ...], dict[Segment, list[dict[str, Any]]]]:
        """Tables and masks behind the prompt, and those of the reference for where the target's stand out."""
        found: dict[tuple[object, ...], PartError] = {}
        given: dict[Segment, list[dict[str, Any]]] = {}
        name = dtype_name(self.dtype)
        for segment in self.segments[1:]:
            plain, ours = self.plain.kwargs[segment], self.ours.kwargs[segment]
            wide = _at(self.exact.kwargs, plain, segment)
            parts = outer_parts.layer_inputs(self.native, wide, ours, plain, torch.arange(*segment))
            for part in parts:
                key = part.part, part.module, part.layers
                if key not in found or not precision.part_line(found[key], name).stands_out:
                    found[key] = part
            if any(precision.part_line(part, name).stands_out for part in parts):
                given[segment] = outer_parts.corrected(ours, plain, parts, self.dtype, self.device)
        return tuple(found.values()), given

    def layer(self, index: int) -> DecodeLayerError:
        """One layer behind the prompt, and inside it when it stands out."""
        prompt, behind = self.segments[0][1], self.segments[1:]
        base = rows(self.exact.forced[index][:, prompt:])
        skip = self.exact.undecided[index][prompt:]
        keep = (~skip).repeat_interleave(base.shape[0] // skip.shape[0])
        update = rows(self.exact.outputs[index][:, prompt:]) - base
        plain, ours = self.plain.joined(index, behind), self.ours.joined(index, behind)
        handed = self.handed.joined(index, behind) if self.handed else None
        error = DecodeLayerError(
            index,
            f"{self.path}.{index}",
            tensor_error(rows(ours) - base, update, keep),
            None if handed is None else tensor_error(rows(handed) - base, update, keep),
            tensor_error(rows(plain) - base, update, keep),
            bool(torch.equal(ours, plain)),
            skip.shape[0],
            int(skip.sum()),
        )
        if precision.decode_line(error, dtype_name(self.dtype)).stands_out:
            self.suspects += self._inside(index, error.module)
        return error

    def _inside(self, index: int, path: str) -> tuple[ModuleError, ...]:
        """The layer's modules in the last step, each with the reference's cache as it was before it."""
        last = self.segments[-1]
        before = self.plain.caches[last]
        native = self.native_layers[index]
        calls: dict[str, tuple[Any, Any]] = {}
        handles = [
            module.register_forward_pre_hook(
                lambda _module, args, given, name=name: (calls.setdefault(name, (args, dict(given))), None)[1], with_kwargs=True
            )
            for name, module in native.named_modules()
            if name
        ]
        try:
            run_steps(self.native, self.ids, self.exact.forced, [last], copied(before))
        finally:
            for handle in handles:
                handle.remove()
        layers = native, self.target_layers[index], widened(native, self.wide_dtype)
        hidden = self.exact.forced[index][:, last[0] :]
        skip = self.exact.undecided[index][last[0] :]
        fresh = _Fresh(before)
        return judge_calls(index, path, layers, calls, hidden, self.replaced, self.device, skip, fresh, self.native)


class _Fresh:
    """Arguments of a recorded call with a cache as it was before it; the call changes its own copy."""

    def __init__(self, before: dict[str, Any]) -> None:
        self.before = next(iter(before.values()))

    def __call__(self, value: Any, dtype: torch.dtype | None) -> Any:
        """The arguments, floating tensors in the dtype where one is named."""
        return tree_map(lambda leaf: self._one(leaf, dtype), value, is_leaf=is_cache)

    def _one(self, leaf: Any, dtype: torch.dtype | None) -> Any:
        if is_cache(leaf):
            return copied(self.before, dtype)
        return leaf.to(dtype) if dtype and isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf


def _at(exact: list[dict[str, Any]], plain: list[dict[str, Any]], segment: Segment) -> list[dict[str, Any]]:
    """The higher precision's tables at a segment's positions, with the native reference's masks (which hold no rounding)."""
    cut: dict[int, Any] = {}
    found = []
    for kwargs, step in zip(exact, plain, strict=True):
        here = {name: value for name, value in step.items() if name == outer_parts.MASK}
        tables = kwargs.get(outer_parts.TABLES)
        if tables is not None:
            if id(tables) not in cut:
                cut[id(tables)] = tree_map(lambda leaf: leaf[..., segment[0] : segment[1], :], tables)
            here[outer_parts.TABLES] = cut[id(tables)]
        found.append(here)
    return found
