"""From a configuration to one of the same architecture that runs anywhere in seconds.

The first layers are kept, as many as it takes to have each distinct kind of layer; widths follow in reduction_widths. Pure:
the same bytes give the same bytes.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.canonical import Json
from dayzero.domain.findings import Finding, Severity
from dayzero.domain.rehearsal import Change, Reduction
from dayzero.errors import BadInputError
from dayzero.stages.reduction.widths import shrink_widths

MOST_LAYERS = 16
"""Kinds that appear only after these layers are left out, with a finding: a rehearsal has to end soon."""

DEPTH = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
NESTED = ("text_config", "llm_config", "language_config", "text_model_config", "language_model_config")
TOWERS = ("vision_config", "audio_config", "visual_config", "vision_tower_config", "speech_config", "video_config")
TOWER_LAYERS = 2
_DRAFTS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
_QUANTIZATION = ("quantization_config", "compression_config")
_ROTARY = ("rope_scaling", "rope_parameters")
_COUNTED = ("max_window_layers", "first_k_dense_replace", "num_hash_layers", "n_dense_layers")


def reduce_configuration(document: bytes, spec: ModelSpec) -> Reduction:
    """The reduced configuration of a model whose structure is `spec`. BadInputError: no object, or no number of layers."""
    top = json.loads(document.decode("utf-8-sig"))
    if not isinstance(top, dict):
        raise BadInputError("config.json is no JSON object.", remedy="Give the config.json of a Hugging Face model.")
    reduced: dict[str, Json] = json.loads(json.dumps(top))
    holder = _language(reduced)
    stated = next((value for name in DEPTH if isinstance(value := holder.get(name), int)), None) or len(spec.layers)
    if not stated:
        raise BadInputError("config.json states no number of layers, so that there is nothing to reduce.")
    kept, kinds, left_out = _depth(spec, stated)
    findings: list[Finding] = []
    if left_out:
        findings.append(_note("rehearsal.layers_left_out", f"{left_out} kinds of layer come later and are not rehearsed"))
    for part in (holder,) if holder is reduced else (holder, reduced):
        _keep_layers(part, stated, kept)
        findings += _without(part)
    if "dtype" not in holder and "torch_dtype" not in holder and "dtype" not in reduced and "torch_dtype" not in reduced:
        holder["dtype"] = spec.native_dtype or "bfloat16"
    shrink_widths(holder, reduced)
    for name in TOWERS:
        if isinstance(tower := reduced.get(name), dict):
            _shrink_tower(tower)
    said = {finding.code: finding for finding in findings}
    return Reduction(json.dumps(reduced, sort_keys=True), kept, kinds, tuple(_changes(top, reduced)), tuple(said.values()))


def _language(top: dict[str, Json]) -> dict[str, Json]:
    for holder in (top, top.get("thinker_config")):
        if isinstance(holder, dict):
            for name in NESTED:
                if isinstance(nested := holder.get(name), dict):
                    return nested
    return top


def _depth(spec: ModelSpec, stated: int) -> tuple[int, int, int]:
    """How many of the first layers are kept, how many kinds those have, and how many kinds come only later."""
    first: dict[object, int] = {}
    for layer in spec.layers:
        first.setdefault(replace(layer, index=0), layer.index)
    if not first:
        return min(stated, 4), 0, 0
    kept = min(1 + max(first.values()), MOST_LAYERS)
    near = sum(index < kept for index in first.values())
    return max(kept, min(stated, 2)), near, len(first) - near


def _keep_layers(part: dict[str, Json], stated: int, kept: int) -> None:
    """Cut what is said layer by layer; recurses into nested objects that are not about rotary embeddings or towers."""
    first = _first_number(part, stated)
    for name, value in list(part.items()):
        if name in (*DEPTH, *_COUNTED) and isinstance(value, int):
            part[name] = min(value, kept)
        elif name == "num_kv_shared_layers" and isinstance(value, int):
            part[name] = 0
        elif isinstance(value, str) and name.endswith("pattern") and len(value) == stated:
            part[name] = value[:kept]
        elif isinstance(value, list):
            part[name] = _cut(name, value, stated, kept, first)
        elif isinstance(value, dict) and name not in (*_ROTARY, *NESTED, *TOWERS):
            _keep_layers(value, stated, kept)


def _cut(name: str, values: list[Json], stated: int, kept: int, first: int) -> list[Json]:
    """A list with an item for each layer (and for draft layers after them) is cut; a list of layer numbers is filtered."""
    if stated <= len(values) <= stated + 8:
        return values[:kept]
    numbers = _layer_numbers(name, values)
    return values if numbers is None else [number for number in numbers if number < kept + first]


def _layer_numbers(name: str, values: Json) -> list[int] | None:
    if not isinstance(values, list) or not name.endswith(("layers", "layer_ids", "layer_indices", "layer_idx")):
        return None
    numbers = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    return numbers if len(numbers) == len(values) else None


def _first_number(part: Mapping[str, Json], stated: int) -> int:
    """Whether the object's lists of layers count from 1: together they name the last layer, and never a layer 0."""
    named = [number for name, value in part.items() for number in _layer_numbers(name, value) or ()]
    return int(bool(named) and min(named) >= 1 and max(named) == stated)


def _without(part: dict[str, Json]) -> Iterator[Finding]:
    """Take out what a rehearsal cannot have, and say so."""
    for name in _QUANTIZATION:
        if part.pop(name, None) is not None:
            yield _note("rehearsal.unquantized", "rehearsed with unquantized weights: quantized kernels wait for the real ones")
    for name in _DRAFTS:
        if part.get(name):
            part[name] = 0
            yield _note("rehearsal.no_draft_layers", "multi-token-prediction layers are not rehearsed")
    if part.pop("auto_map", None) is not None:
        yield _note("rehearsal.own_code", "the repository's own code is not run; the library's implementation is rehearsed")


def _shrink_tower(tower: dict[str, Json]) -> None:
    """A tower keeps its widths and two layers; lists of its layer numbers keep those that are left."""
    for name, value in list(tower.items()):
        if name in (*DEPTH, "depth") and isinstance(value, int):
            tower[name] = min(value, TOWER_LAYERS)
        elif name.endswith("indexes") and isinstance(value, list):
            tower[name] = list(range(min(len(value), TOWER_LAYERS)))


def _changes(was: Mapping[str, Json], now: Mapping[str, Json], above: str = "") -> Iterator[Change]:
    for name in sorted({*was, *now}):
        old, new = was.get(name), now.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _changes(old, new, f"{above}{name}.")
        elif old != new or (name in was) != (name in now):
            yield Change(f"{above}{name}", _shown(old), _shown(new) if name in now else None)


def _shown(value: Json) -> str:
    text = json.dumps(value)
    if isinstance(value, float) and not math.isfinite(value):
        text = "null"
    return text if len(text) <= 120 else f"{text[:100]} … ({len(value) if isinstance(value, list | dict) else len(text)})"


def _note(code: str, message: str) -> Finding:
    return Finding(code, "rehearsal", message, Severity.NOTE)
