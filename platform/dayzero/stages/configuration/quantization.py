"""How a configuration, or the side file beside it, says that weights are quantized."""

import json
from collections.abc import Mapping
from dataclasses import replace

from dayzero.domain.architecture import Quantization, QuantizationGroup
from dayzero.domain.canonical import Json
from dayzero.errors import BadInputError
from dayzero.stages.configuration.fields import Fields

SIDE_FILE = "hf_quant_config.json"
MAX_SIDE_BYTES = 64 * 1024 * 1024
OTHER = "other"

_NAMED = {
    "fp8": ("fp8_tensor", 8, None, 0), "fbgemm_fp8": ("fp8_channel", 8, None, 32), "fp8_pb_wo": ("fp8_block", 8, None, 0),
    "fp8_per_channel_per_token": ("fp8_channel", 8, None, 32), "mxfp8": ("mxfp8", 8, 32, 8), "mxfp4": ("mxfp4", 4, 32, 8),
    "nvfp4": ("nvfp4", 4, 16, 8), "nvfp4_awq": ("nvfp4", 4, 16, 8), "w4a16_awq": ("int4_group", 4, 128, 16),
    "int8": ("int8", 8, None, 0), "int8_sq": ("int8", 8, None, 32),
}  # fmt: skip
"""Scheme, bits, weights a scale and bits of a scale, by the name of a method. Block formats: OCP Microscaling 1.0 (32 weights,
8-bit scales); NVFP4: 16 weights, 8-bit scales (ModelOpt)."""

_IGNORED = ("modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules")


def quantization_of(
    config: Mapping[str, Json] | None, side: bytes | None = None, expert_dtype: str | None = None
) -> Quantization | None:
    """The scheme that a quantization_config or the side file names, or None when there is none.

    What config.json says goes first; the side file fills in what it leaves out. `expert_dtype` is what DeepSeek-V4 says of its
    routed experts beside the scheme of all else. BadInputError: wrong types.
    """
    beside = _side(side) if side is not None else None
    if not config:
        return _read(beside, SIDE_FILE) if beside else None
    own = _read(config, "config.json")
    if beside and (own.groups[0].scheme == OTHER or own.method == "unnamed"):
        return _read(beside, SIDE_FILE)
    experts = expert_dtype or Fields(config, {}).text("expert_dtype")
    return own if experts is None else replace(own, groups=(*own.groups, _of_experts(experts)))


def _of_experts(dtype: str) -> QuantizationGroup:
    """Routed experts by themselves; "fp4" has a scale of 8 bits for 32 weights (DeepSeek-V4, ue8m0 scales)."""
    scheme, bits, size, scale = _NAMED.get({"fp4": "mxfp4"}.get(dtype.lower(), dtype.lower()), (OTHER, None, None, 0))
    return QuantizationGroup(scheme, bits, size, scale, ("experts",))


def _side(document: bytes) -> Mapping[str, Json] | None:
    if len(document) > MAX_SIDE_BYTES:
        raise BadInputError(f"{SIDE_FILE} has {len(document)} bytes; {MAX_SIDE_BYTES} is the most that is read.")
    try:
        value = json.loads(document.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"{SIDE_FILE} is not JSON: {str(error)[:160]}.") from error
    inner = value.get("quantization", value) if isinstance(value, dict) else None
    if not isinstance(inner, dict):
        raise BadInputError(f"{SIDE_FILE} holds no object of that name: {type(value).__name__}.")
    return inner


def _read(config: Mapping[str, Json], source: str) -> Quantization:
    fields = Fields(config, {})
    method = (fields.text("quant_method", "quant_algo") or "unnamed").lower()
    ignored: tuple[str, ...] = ()
    for key in _IGNORED:
        ignored = ignored or fields.texts(key) or ()
    groups = _groups(fields, method)
    return Quantization(
        method=method,
        bits=groups[0].bits,
        block_shape=fields.counts("weight_block_size", least=1) or None,
        ignored_modules=ignored,
        groups=groups,
        cache_dtype=_cache(config),
        source=source,
        complete=not any(key.startswith("__") for key in (fields.mapping("quantized_layers") or {})),
        act_order=_act_order(fields),
    )


def _act_order(fields: Fields) -> bool:
    """GPTQ's desc_act, or compressed-tensors' actorder by group ("static" and "weight" leave inputs where they are)."""
    groups = [Fields(group, {}).inside("weights") for group in (fields.mapping("config_groups") or {}).values()
              if isinstance(group, dict)]  # fmt: skip
    return fields.flag("desc_act") is True or any(one.text("actorder") == "group" for one in groups if one is not None)


def _groups(fields: Fields, method: str) -> tuple[QuantizationGroup, ...]:
    layers = fields.mapping("quantized_layers")
    if layers:
        return _by_layer(layers)
    groups = fields.mapping("config_groups")
    if groups:
        found = [_compressed(Fields(group, {}), fields) for group in groups.values() if isinstance(group, dict)]
        if found:
            return tuple(found)
    algorithm = (fields.text("quant_algo") or method).lower()
    bits, size = fields.count("bits", "num_bits", "w_bit", most=64), fields.count("group_size", "q_group_size", least=-1)
    if method in ("gptq", "awq", "gptq_marlin", "auto-round"):
        # A scale of 16 bits and a zero point as wide as a weight for each group.
        return (_scheme("int4_group" if bits == 4 else OTHER, bits, size if size and size > 0 else None, 16 + (bits or 0)),)
    if fields.counts("weight_block_size"):
        return (_scheme("fp8_block", 8, None, 32),)
    if algorithm in _NAMED:
        scheme, known_bits, known_size, scale = _NAMED[algorithm]
        return (_scheme(scheme, known_bits, size if size and size > 0 else known_size, scale),)
    if method == "unnamed" and bits and size and size > 0:
        # MLX keeps a 16-bit scale and a 16-bit bias for each group.
        return (_scheme("int4_group" if bits == 4 else "int8" if bits == 8 else OTHER, bits, size, 32),)
    return (_scheme(OTHER, bits, None, 0),)


def _scheme(scheme: str, bits: int | None, size: int | None, scale_bits: int) -> QuantizationGroup:
    return QuantizationGroup(scheme, bits, size, scale_bits)


def _compressed(group: Fields, whole: Fields) -> QuantizationGroup:
    """One group of a compressed-tensors configuration."""
    weights = group.inside("weights")
    targets = tuple(name for name in group.texts("targets") or () if name != "Linear")
    if weights is None:
        return QuantizationGroup(OTHER, None, None, 0, targets)
    bits, size = weights.count("num_bits", most=64), weights.count("group_size", least=-1)
    strategy, kind = weights.text("strategy"), weights.text("type")
    style = group.text("format") or whole.text("format") or ""
    size = size if size and size > 0 else None
    if bits == 4 and kind == "float":
        scheme = "mxfp4" if "mxfp4" in style or size == 32 else "nvfp4"
        return QuantizationGroup(scheme, 4, size or (32 if scheme == "mxfp4" else 16), 8, targets)
    if bits == 8 and kind == "float":
        scheme = {"block": "fp8_block", "channel": "fp8_channel"}.get(strategy or "", "fp8_tensor")
        return QuantizationGroup(scheme, 8, None, 0 if scheme == "fp8_tensor" else 16, targets)
    if bits == 4:
        symmetric = weights.flag("symmetric") is not False
        return QuantizationGroup("int4_group", 4, size, 16 if symmetric else 20, targets)
    return QuantizationGroup("int8" if bits == 8 else OTHER, bits, size, 16, targets)


def _by_layer(layers: Mapping[str, Json]) -> tuple[QuantizationGroup, ...]:
    """A map from module to algorithm: one group for each algorithm, the most used first."""
    modules: dict[str, list[str]] = {}
    for name, value in layers.items():
        algorithm = value.get("quant_algo") if isinstance(value, dict) else None
        if isinstance(algorithm, str):
            modules.setdefault(algorithm.lower(), []).append(name)
    found = []
    for algorithm, names in sorted(modules.items(), key=lambda item: (-len(item[1]), item[0])):
        scheme, bits, size, scale = _NAMED.get(algorithm, (OTHER, None, None, 0))
        found.append(QuantizationGroup(scheme, bits, size, scale, tuple(sorted(names))))
    return tuple(found) or (QuantizationGroup(OTHER),)


def _cache(config: Mapping[str, Json]) -> str | None:
    """The cache's dtype: from the cache's own field only, never from that of the weights."""
    for key in ("kv_cache_quant_algo", "kv_cache_scheme"):
        value = config.get(key)
        if isinstance(value, str):
            return {"fp8": "float8_e4m3fn", "int8": "int8"}.get(value.lower(), value.lower())
        if isinstance(value, dict) and value.get("num_bits") == 8:
            return "float8_e4m3fn" if value.get("type") == "float" else "int8"
    return None
