"""How a configuration says that weights are quantized."""

from collections.abc import Mapping

from dayzero.domain.architecture import Quantization
from dayzero.domain.canonical import Json
from dayzero.stages.configuration_fields import Fields

_BITS = {"fp8": 8, "mxfp4": 4, "nvfp4": 4, "fbgemm_fp8": 8, "mxfp8": 8}


def quantization_of(config: Mapping[str, Json] | None) -> Quantization | None:
    """The scheme that a quantization_config names, or None when there is none; BadInputError for wrong types."""
    if not config:
        return None
    fields = Fields(config, {})
    method = (fields.text("quant_method", "quant_algo") or "unnamed").lower()
    ignored: tuple[str, ...] = ()
    for key in ("modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules"):
        ignored = ignored or fields.texts(key) or ()
    block = fields.counts("weight_block_size")
    bits = fields.count("bits", "num_bits", "w_bit", most=64) or _BITS.get(method) or _group_bits(fields)
    return Quantization(method, bits, block or None, ignored)


def _group_bits(fields: Fields) -> int | None:
    groups = fields.mapping("config_groups") or {}
    for group in groups.values():
        weights = Fields(group, {}).mapping("weights") if isinstance(group, dict) else None
        if weights:
            return Fields(weights, {}).count("num_bits", most=64)
    return None
