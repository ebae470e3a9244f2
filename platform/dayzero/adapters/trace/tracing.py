"""Prefill, decode and a training step of an architecture on the meta device, recorded. Imported by child processes only."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
import transformers

from dayzero.adapters.trace.beside import beside
from dayzero.adapters.trace.building import BuildError, Built, UnknownTypeError, build
from dayzero.adapters.trace.components import parameters_by_component
from dayzero.adapters.trace.composites import CompositeRecorder, KernelScopes
from dayzero.adapters.trace.counting import tensors_in
from dayzero.adapters.trace.decomposing import decompositions_of, united
from dayzero.adapters.trace.dispatching import DispatchRecorder, Memo
from dayzero.adapters.trace.folding import fold_layers, unfold_layers
from dayzero.adapters.trace.recording import Recorder
from dayzero.adapters.trace.shapes import CONTEXT, TOKENS, Shapes
from dayzero.adapters.trace.sharding import ShardingError, sharded, uneven_heads
from dayzero.adapters.trace.training import train_once
from dayzero.domain.findings import Finding, Severity
from dayzero.domain.operators import CollectiveUse, CompiledGraph, Decomposition, GraphUse, Phase, Trace, TraceOptions

_INDEX = re.compile(r"(?<=\.)\d+(?=\.|$)")
_Run = Callable[[Built, Recorder], None]


def trace_config(text: str, *, fold_layers: bool, options: TraceOptions | None = None) -> Trace:
    """The trace of a configuration: batch 1, a prefill of TOKENS tokens, one decode step on its cache, one training step.

    UnknownTypeError, BuildError; ShardingError when a degree above 1 is asked for and cannot be; any other error is the
    library's own.
    """
    wanted = options or TraceOptions()
    memo, scopes = Memo(), KernelScopes()
    try:
        return _traced(text, _Tracing(build(text, scopes, memo), scopes, memo, fold_layers), wanted)
    except (UnknownTypeError, BuildError, ShardingError):
        raise
    except Exception as error:  # noqa: BLE001 - the library's code can raise anything; the language model alone may run
        try:
            built = build(text, scopes, memo, language_only=True)
        except BuildError:
            raise error from None
        return _traced(text, _Tracing(built, scopes, memo, fold_layers), wanted)


def _traced(text: str, tracing: "_Tracing", wanted: TraceOptions) -> Trace:
    components = parameters_by_component(tracing.built.model)
    with (
        sharded(tracing.built.model, wanted.tp) if wanted.tp > 1 else nullcontext(),
        beside(lambda: tracing.training(wanted.tp)) if wanted.train else nullcontext(_Trained) as training,
    ):
        recorder = tracing.inference(wanted.tp)
        trained = training()
    collectives = [*recorder.collectives(wanted.tp)] if wanted.tp > 1 else []
    collectives += [use for tp in wanted.degrees if tp not in (1, wanted.tp) for use in tracing.collectives(tp)]
    compiled: tuple[CompiledGraph, ...] = ()
    if wanted.compiled:
        from dayzero.adapters.trace.compiling import compiled_graphs

        compiled = compiled_graphs(text, tracing.built)
    library = f"transformers {transformers.__version__}, torch {torch.__version__}"
    return Trace(
        (*recorder.uses(), *trained.uses), components, library, (*tracing.findings, *trained.findings), recorder.shapes.symbols,
        tuple(collectives), compiled, wanted.tp, united(decompositions_of(tracing.samples), trained.decompositions),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Trained:
    """What a training step showed beside the inference."""

    uses: tuple[GraphUse, ...] = ()
    findings: tuple[Finding, ...] = ()
    decompositions: tuple[Decomposition, ...] = ()


class _Tracing:
    """One built model, run in several ways; what was noticed gathers in `findings`."""

    def __init__(self, built: Built, scopes: KernelScopes, memo: Memo, fold: bool) -> None:
        self.built = built
        self._memo = memo
        self._scopes = scopes
        self._fold = fold
        self.findings = list(built.findings)
        self.samples: dict[Any, tuple[Any, Any]] = {}

    def inference(self, tp: int) -> Recorder:
        """Prefill and decode, folded where that works, else at full depth."""
        return self._folded_or_not(_infer, tp, note=True)

    def training(self, tp: int) -> _Trained:
        """What a training step shows; nothing, with a finding, where the library cannot train the model on meta."""
        known = len(self.findings)
        try:
            uses = self._folded_or_not(_train, tp, note=False).uses()
        except Exception as error:  # noqa: BLE001 - the library's code can raise anything; inference stands without it
            message = f"no training step was traced: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
            self.findings.append(Finding("trace.no_train", "trace", message, Severity.WARNING))
            uses = ()
        return _Trained(tuple(uses), tuple(self.findings[known:]), decompositions_of(self.samples) if uses else ())

    def collectives(self, tp: int) -> tuple[CollectiveUse, ...]:
        """The collectives of prefill and decode at that degree; none, with a finding, where the library cannot shard so."""
        try:
            with sharded(self.built.model, tp):
                recorder = self._run(_infer, tp, folding=self._fold, note=False, collectives_only=True)
        except Exception as error:  # noqa: BLE001 - a plan can fail in any way; the unsharded trace stands without it
            why = str(error) if isinstance(error, ShardingError) else f"{type(error).__name__}: {error}"
            why = uneven_heads(self.built.config, tp) or why
            message = f"collectives at tp {tp} are unknown: {' '.join(why.split())[:300]}"
            self.findings.append(Finding("trace.no_collectives", f"tp{tp}", message, Severity.WARNING, {"tp": tp}))
            return ()
        return recorder.collectives(tp)

    def _folded_or_not(self, run: _Run, tp: int, *, note: bool) -> Recorder:
        if self._fold:
            try:
                return self._run(run, tp, folding=True, note=note)
            except Exception as error:  # noqa: BLE001 - layers that share state cannot be folded; the full depth decides
                message = f"every layer was run: folding failed with {type(error).__name__}"
                self.findings.append(_note("trace.full_depth", message, {}))
        return self._run(run, tp, folding=False, note=note)

    def _run(self, run: _Run, tp: int, *, folding: bool, note: bool, collectives_only: bool = False) -> Recorder:
        built = self.built
        recorder = Recorder(Shapes(built.config, tp))
        distinct = fold_layers(built.model, recorder) if folding else None
        try:
            composites = nullcontext() if collectives_only else CompositeRecorder(recorder)
            dispatch = DispatchRecorder(recorder, self._memo, collectives_only=collectives_only)
            with _told(built.model, recorder, self._scopes), torch.device("meta"), torch.no_grad(), composites, dispatch:
                run(built, recorder)
        finally:
            if folding:
                unfold_layers(built.model)
        self.samples = dispatch.samples | self.samples
        if note:
            self.findings.extend(_notes(recorder, distinct))
        return recorder


def _notes(recorder: Recorder, distinct: int | None) -> Iterator[Finding]:
    numbers = {"batch": 1, "prefill_tokens": TOKENS, "decode_context_tokens": CONTEXT, "distinct_layers": distinct}
    yield _note("trace.workload", f"batch 1, prefill of {TOKENS} tokens, one decode step on them", numbers)
    if recorder.answered:
        message = "operators that ask for data were given one answer: counts and sizes after them depend on the data"
        yield Finding("trace.data_dependent", "trace", message, Severity.WARNING, dict(recorder.answered))


def _infer(built: Built, recorder: Recorder) -> None:
    """Prefill, and for a model with a cache one decode step on it; tensors that are made for us are not recorded."""
    with recorder.muted():
        tokens, mask, step = _integers(TOKENS, 0), _integers(TOKENS, 1), _integers(1, 0)
    if not built.decodes:
        inputs = {"input_ids": tokens, "attention_mask": mask}
        if getattr(built.model.config, "is_encoder_decoder", False):
            inputs["decoder_input_ids"] = tokens
        built.model(**inputs)
        return
    # A serving engine computes the logits of the last position alone.
    options = {"logits_to_keep": 1} if "logits_to_keep" in signature(built.model.forward).parameters else {}
    out = built.model(input_ids=tokens, use_cache=True, **options)
    state = next((name for name in ("past_key_values", "cache_params") if getattr(out, name, None) is not None), None)
    if state is None:
        raise RuntimeError("the model gave no cache to decode with")
    recorder.phase = Phase.DECODE
    built.model(input_ids=step, use_cache=True, **{state: getattr(out, state)})


def _train(built: Built, recorder: Recorder) -> None:
    recorder.phase = Phase.TRAIN
    with recorder.muted():
        tokens, mask = _integers(TOKENS, 0), _integers(TOKENS, 1)
    train_once(built.model, tokens, None if built.decodes else mask)


def _integers(tokens: int, value: int) -> Any:
    return torch.full((1, tokens), value, dtype=torch.int64)


@contextmanager
def _told(model: Any, recorder: Recorder, scopes: KernelScopes) -> Iterator[None]:
    """Modules tell the recorder when they run, by their path with layer indices as `*`, named kernels by their name too."""
    handles: list[Any] = []
    for name, module in model.named_modules():
        handles += _tell(module, _INDEX.sub("*", name), scopes.layer_name(module), recorder)
    scopes.recorder = recorder
    try:
        with scopes.named_functions():
            yield
    finally:
        scopes.recorder = None
        for handle in handles:
            handle.remove()


def _tell(module: Any, path: str, kernel: str | None, recorder: Recorder) -> list[Any]:
    running: list[tuple[Any, list[Any]]] = []

    def begin(module: Any, inputs: Any) -> None:
        recorder.push(path)
        if kernel is not None:
            outputs: list[Any] = []
            scope = recorder.composite(kernel, tensors_in(inputs), outputs)
            scope.__enter__()
            running.append((scope, outputs))

    def end(module: Any, inputs: Any, output: Any) -> None:
        if kernel is not None:
            scope, outputs = running.pop()
            outputs.extend(tensors_in(output))
            scope.__exit__(None, None, None)
        recorder.pop()

    return [module.register_forward_pre_hook(begin), module.register_forward_hook(end, always_call=True)]


def _note(code: str, message: str, numbers: dict[str, int | None]) -> Finding:
    return Finding(code, "trace", message, Severity.NOTE, {key: value for key, value in numbers.items() if value is not None})
