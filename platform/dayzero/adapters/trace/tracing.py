"""Prefill and decode of an architecture on the meta device, recorded. Imported by child processes only."""

import re
from inspect import signature
from typing import Any

import torch
import transformers

from dayzero.adapters.trace.building import Built, build
from dayzero.adapters.trace.components import parameters_by_component
from dayzero.adapters.trace.folding import fold_layers, unfold_layers
from dayzero.adapters.trace.recording import TOKENS, CompositeRecorder, DispatchRecorder, Recorder
from dayzero.domain.findings import Finding, Severity
from dayzero.domain.operators import Phase, Trace

_INDEX = re.compile(r"(?<=\.)\d+(?=\.|$)")


def trace_config(text: str, *, fold_layers: bool) -> Trace:
    """The trace of a configuration: batch 1, a prefill of TOKENS tokens, then one decode step on its cache.

    UnknownTypeError, BuildError; any other error is the library's own.
    """
    built = build(text)
    findings = list(built.findings)
    recorder, notes = _recorded(built, fold_layers, findings)
    findings.extend(notes)
    library = f"transformers {transformers.__version__}, torch {torch.__version__}"
    return Trace(recorder.uses(), parameters_by_component(built.model), library, tuple(findings))


def _recorded(built: Built, folding: bool, findings: list[Finding]) -> tuple[Recorder, list[Finding]]:
    if folding:
        try:
            return _run(built, folding=True)
        except Exception as error:  # noqa: BLE001 - layers that share state cannot be folded; the full depth decides
            unfold_layers(built.model)
            findings.append(_note("trace.full_depth", f"every layer was run: folding failed with {type(error).__name__}", {}))
    return _run(built, folding=False)


def _run(built: Built, *, folding: bool) -> tuple[Recorder, list[Finding]]:
    recorder = Recorder()
    handles = _name_modules(built.model, recorder)
    distinct = fold_layers(built.model, recorder) if folding else None
    try:
        with torch.no_grad(), torch.device("meta"), CompositeRecorder(recorder), DispatchRecorder(recorder):
            _forward(built, recorder)
    finally:
        for handle in handles:
            handle.remove()
    numbers = {"batch": 1, "prefill_tokens": TOKENS, "decode_context_tokens": TOKENS, "distinct_layers": distinct}
    notes = [_note("trace.workload", f"batch 1, prefill of {TOKENS} tokens, one decode step on them", numbers)]
    if recorder.answered:
        message = "operators that ask for data were given one answer: counts and sizes after them depend on the data"
        notes.append(Finding("trace.data_dependent", "trace", message, Severity.WARNING, dict(recorder.answered)))
    return recorder, notes


def _forward(built: Built, recorder: Recorder) -> None:
    """Prefill, and for a model with a cache one decode step on it; tensors that are made for us are not recorded."""
    tokens, mask, step = _integers(TOKENS, 0), _integers(TOKENS, 1), _integers(1, 0)
    recorder.calls.clear()
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


def _integers(tokens: int, value: int) -> Any:
    return torch.full((1, tokens), value, dtype=torch.int64)


def _name_modules(model: Any, recorder: Recorder) -> list[Any]:
    """Hooks that keep the path of the running module, layer indices as `*`."""
    handles: list[Any] = []
    for name, module in model.named_modules():
        path = _INDEX.sub("*", name)
        handles.append(module.register_forward_pre_hook(_push(recorder, path)))
        handles.append(module.register_forward_hook(_pop(recorder), always_call=True))
    return handles


def _push(recorder: Recorder, path: str) -> Any:
    return lambda module, inputs: recorder.modules.append(path)


def _pop(recorder: Recorder) -> Any:
    def pop(module: Any, inputs: Any, output: Any) -> None:
        recorder.modules.pop()

    return pop


def _note(code: str, message: str, numbers: dict[str, int | None]) -> Finding:
    return Finding(code, "trace", message, Severity.NOTE, {key: value for key, value in numbers.items() if value is not None})
