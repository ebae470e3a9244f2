"""Planted faults by architecture: which the checks detect, which layer and module they name, and how far each moves the output.

tests/prove/test_planted_faults.py runs the whole matrix and writes docs/proofs/planted_faults.json and docs/planted-faults.md.
Detection is the product's: its observations of a target in which the plugin `planted-fault` was switched on, and its judgement.
What is known here is only where the fault was put, to compare with what the verdict names.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

import fault_models
from dayzero.adapters.runners import child, loading, planting
from dayzero.adapters.runners.figures import tensor_error
from dayzero.adapters.runners.heads import wide_logits
from dayzero.adapters.runners.measuring import cache_of
from dayzero.adapters.runners.observe_decoding import segments_of
from dayzero.adapters.runners.three_ways import reference_dtype
from dayzero.codec import dump, load
from dayzero.domain.observations import Part
from dayzero.domain.runs import Observation, RunEnd, RunOutcome, RunRequest
from dayzero.domain.verdict import Verdict
from dayzero.stages.judging.checks import Judged, judge

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "docs" / "planted-faults.md"
PROOF = "planted_faults.json"
TOKENS = 64
DTYPES = ("float32", "bfloat16")
LEAST_EFFECT = 2.0
"""A fault counts as one when it moves the output by more than twice the native dtype's own error."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A mistake in words, where it is to be seen, what the verdict should name, and why it does not apply elsewhere.

    `modules` are the ends of the paths that name the guilty module; for a part outside of the layers, `part` is named instead.
    """

    words: str
    modules: tuple[str, ...]
    otherwise: str
    observation: Observation = Observation.LAYERS
    part: Part | None = None


FAULTS: Mapping[str, Fault] = {
    "rotary_base": Fault("wrong rotary base", ("rotary_emb",), "no rotary embedding", part=Part.ROTARY),
    "rotary_layout": Fault("wrong rotary layout (neighbours for halves)", ("self_attn",), "no rotary embedding"),
    "norm_eps": Fault("ten times the norm's epsilon", ("input_layernorm",), "no norm"),
    "attention_scale": Fault("attention not scaled", ("self_attn",), "no attention"),
    "gate_up": Fault("gate and up swapped", ("gate_proj", "up_proj", "experts"), "no gate"),
    "kv_map": Fault("shifted KV-head map", ("self_attn",), "no grouped heads"),
    "shared_expert": Fault("shared expert dropped", ("shared_experts", "shared_expert"), "no shared expert"),
    "topk_norm": Fault("wrong top-k normalisation", ("gate", "router"), "no router"),
    "router_downcast": Fault("router in bfloat16", ("gate", "router"), "no router"),
    "expert": Fault("one expert transposed or swapped", ("experts",), "no experts"),
    "window_ignored": Fault("window ignored", ("self_attn",), "no window"),
    "sinks_ignored": Fault("sinks ignored", ("self_attn",), "no sinks"),
    "quantization_scale": Fault("FP8 scale ignored", ("up_proj",), "not quantized"),
    "head_untied": Fault("tied head missing", ("lm_head",), "head not tied", part=Part.HEAD),
    "mask_off_by_one": Fault("mask off by one", ("(mask)",), "no mask", part=Part.MASK),
    "stale_position": Fault(
        "stale position in decoding", ("rotary_emb",), "no rotary embedding", Observation.DECODING, Part.ROTARY
    ),
    "stale_cache": Fault(
        "stale cache slot in decoding (keys behind values)", ("self_attn",), "no attention", Observation.DECODING
    ),
}
ELSEWHERE = (
    "A missing or doubled reduction of tensor parallelism needs ranks: both are planted in them (options `skip_all_reduce` and "
    "`double_all_reduce`), dense and with experts, and found by `tests/integration/verification/test_planted_sums.py`."
)
NATIVE_ROUTERS = ("window_sinks", "gated_delta", "mamba")
"""Architectures whose router computes its logits in the model's own dtype, so that bfloat16 is no downcast there."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One fault in one architecture and dtype: whether it was detected, what was named, and its effect.

    `effect` is the error of the faulty model's logits over the native dtype's own, both against the higher precision.
    """

    kind: str
    fault: str
    dtype: str
    seed: int
    applies: bool
    why_not: str | None = None
    planted: str | None = None
    effect: float | None = None
    native_error: float | None = None
    verdict: str | None = None
    detected: bool = False
    layer_named: bool = False
    module_named: bool = False
    named: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Clean:
    """A sound run: its verdict, and whether that is a false alarm."""

    kind: str
    dtype: str
    seed: int
    target: str
    observation: str
    verdict: str
    alarm: bool
    reason: str


def judged(request: RunRequest) -> Judged:
    """What the product says of a request, observed in this process."""
    outcome = RunOutcome(RunEnd.COMPLETED, dump(child.observe(request)), "", "", 0.0, None)
    return judge(request, outcome, load)


def asked(
    folder: Path, observation: Observation, dtype: str, target: str = "sdpa", plugins: tuple[str, ...] = ()
) -> RunRequest:
    """The request of a run on that kind of target: eager, sdpa or compiled."""
    options: dict[str, int | float | str | bool] = {
        "compile": target == "compiled", "tokens": TOKENS, "kernels": "eager" if target == "eager" else "fused",
    }  # fmt: skip
    return RunRequest(observation, "cpu", str(folder), dtype=dtype, custom_operators=plugins, options=options)


def cell(kind: str, folder: Path, fault: str, dtype: str, seed: int) -> Cell:
    """One cell of the matrix."""
    about = FAULTS[fault]
    native = loading.load_model(folder, loading.DTYPES[dtype])
    why_not = inapplicable(native, kind, fault, dtype)
    if why_not:
        return Cell(kind, fault, dtype, seed, False, why_not)
    error, faulty = errors(native, folder, fault, seed, about.observation)
    result = judged(asked(folder, about.observation, dtype, plugins=(f"planted-fault:fault={fault}:seed={seed}",)))
    check = result.checks[0]
    place = None if about.part else planting.place_of(native, fault, seed)
    named = [(culprit.layer_index, culprit.module) for culprit in result.culprits]
    first = named[0] if named else None
    if place is None:
        layer_named = first is not None and all(index is None for index, _ in named)
    else:
        layer_named = {index for index, _ in named} == {place[1]}
    return Cell(
        kind, fault, dtype, seed, True, None,
        about.part.value if about.part else f"{place[0]}.{place[1]}" if place else None,
        faulty / error, error, check.verdict.value, check.verdict is Verdict.FAIL, layer_named,
        layer_named and first is not None and first[1].endswith(about.modules),
        "; ".join(module for _, module in named), check.reason,
    )  # fmt: skip


def inapplicable(model: Any, kind: str, fault: str, dtype: str) -> str | None:
    """Why the fault cannot be planted there, or None."""
    about = FAULTS[fault]
    if fault == "router_downcast" and dtype == "bfloat16" and kind in NATIVE_ROUTERS:
        return "its router computes in the model's dtype"
    if fault == "quantization_scale" and not fault_models.ARCHITECTURES[kind].fp8:
        return about.otherwise
    if fault in ("rotary_base", "stale_position"):
        return None if hasattr(model.base_model, "rotary_emb") else about.otherwise
    if fault == "head_untied":
        return None if model.config.tie_word_embeddings else about.otherwise
    if fault in planting.MODEL_FAULTS:
        return None
    layers = loading.decoder_layers(model)[1]
    return None if any(planting.LAYER_FAULTS[fault].applies(layer) for layer in layers) else about.otherwise


def errors(native: Any, folder: Path, fault: str, seed: int, observation: Observation) -> tuple[float, float]:
    """Relative errors of logits against the higher precision: of the native dtype, and of it with the fault."""
    ids = loading.text_tokens(folder, native.config, loading.packaged_text()[1], TOKENS).ids
    exact = wide_logits(native, ids, reference_dtype(native.dtype))
    faulty = loading.shadow(native)
    with ExitStack() as stack:
        planting.plant(faulty, fault, seed, stack)
        if observation is Observation.DECODING:
            first = segments_of(ids.shape[1])[0][1]
            found = [tensor_error(decoded(model, ids)[first:], exact[first:]).rms_relative for model in (native, faulty)]
        else:
            found = [tensor_error(_logits(model, ids), exact).rms_relative for model in (native, faulty)]
    plain, wrong = found
    assert plain is not None and wrong is not None
    return plain, wrong


def _logits(model: Any, ids: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = model(ids, use_cache=False).logits[0]
    return logits


def decoded(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """Logits [tokens, vocabulary] with a cache, step by step."""
    held: dict[str, Any] = {}
    found = []
    with torch.no_grad():
        for start, stop in segments_of(ids.shape[1]):
            out = model(ids[:, start:stop], use_cache=True, **held)
            held = cache_of(out)
            found.append(out.logits[0])
    return torch.cat(found)


def matrix(kinds: tuple[str, ...], faults: tuple[str, ...], dtypes: tuple[str, ...], seed: int, folder: Path) -> Iterator[Cell]:
    """Cells of those kinds, faults and dtypes; models are made below the folder."""
    for kind in kinds:
        model = model_of(kind, seed, folder)
        for dtype in dtypes:
            for fault in faults:
                yield cell(kind, model, fault, dtype, seed)


def clean(
    kinds: tuple[str, ...], dtypes: tuple[str, ...], seeds: tuple[int, ...], targets: tuple[str, ...], folder: Path
) -> Iterator[Clean]:
    """Sound runs of the same models: a verdict of fail or error is a false alarm."""
    for kind in kinds:
        for seed in seeds:
            model = model_of(kind, seed, folder)
            for dtype in dtypes:
                for target in targets:
                    for observation in (Observation.LAYERS, Observation.DECODING):
                        if observation is Observation.DECODING and target == "compiled":
                            continue  # cached decoding runs uncompiled
                        check = judged(asked(model, observation, dtype, target)).checks[0]
                        alarm = check.verdict in (Verdict.FAIL, Verdict.ERROR)
                        yield Clean(kind, dtype, seed, target, observation.value, check.verdict.value, alarm, check.reason)


def model_of(kind: str, seed: int, folder: Path) -> Path:
    """The model of a kind and seed, made once."""
    path = folder / f"{kind}-{seed}"
    return path if (path / "config.json").is_file() else fault_models.write_model(kind, path, seed)


def summary(cells: list[Cell], runs: list[Clean]) -> dict[str, int]:
    """Counts over the matrix."""
    applicable = [one for one in cells if one.applies]
    return {
        "cells": len(applicable),
        "not_applicable": len(cells) - len(applicable),
        "effective": sum((one.effect or 0.0) > LEAST_EFFECT for one in applicable),
        "detected": sum(one.detected for one in applicable),
        "layer_named": sum(one.layer_named for one in applicable),
        "module_named": sum(one.module_named for one in applicable),
        "clean_runs": len(runs),
        "clean_passes": sum(one.verdict == Verdict.PASS.value for one in runs),
        "false_alarms": sum(one.alarm for one in runs),
    }


def figures(cells: list[Cell], runs: list[Clean], seeds: tuple[int, ...]) -> dict[str, Any]:
    """What docs/proofs keeps: counts, every cell, verdicts of sound runs by kind, and every false alarm with its reason."""
    sound: dict[str, dict[str, int]] = {}
    for one in runs:
        counts = sound.setdefault(f"{one.kind} {one.dtype} {one.target} {one.observation}", {})
        counts[one.verdict] = counts.get(one.verdict, 0) + 1
    return {
        "summary": summary(cells, runs), "seeds": list(seeds), "tokens": TOKENS, "cells": [asdict(one) for one in cells],
        "clean": sound, "false_alarms": [asdict(one) for one in runs if one.alarm],
    }  # fmt: skip
