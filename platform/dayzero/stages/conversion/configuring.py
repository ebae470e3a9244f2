"""config.json of a converted checkpoint: what it said, with the quantization that the weights have now."""

import json

from dayzero.domain.architecture import Quantization
from dayzero.domain.canonical import Json
from dayzero.domain.conversion import ConversionPlan, WeightFormat
from dayzero.errors import BadInputError
from dayzero.stages.configuration.quantization import quantization_of
from dayzero.stages.parameters.weights import BLOCK

_KEYS = ("quantization_config", "compression_config", "quantization")


def stated_quantization(document: bytes, side: bytes | None) -> Quantization | None:
    """What config.json, or the side file beside it, says of the weights' quantization; BadInputError when it is unreadable."""
    config = _object(document)
    for part in _parts(config):
        for key in _KEYS:
            stated = part.get(key)
            if isinstance(stated, dict):
                dtype = config.get("expert_dtype")
                return quantization_of(stated, side, dtype if isinstance(dtype, str) else None)
    return quantization_of(None, side)


def converted_config(document: bytes, plan: ConversionPlan) -> bytes:
    """The configuration with its quantization_config changed to match; BadInputError when it is no JSON object."""
    config = _object(document)
    parts = _parts(config)
    for part in parts:
        for key in _KEYS:
            part.pop(key, None)
    if plan.target is WeightFormat.BFLOAT16:
        config.pop("expert_dtype", None)
        for part in parts:
            for key in ("dtype", "torch_dtype"):
                if key in part:
                    part[key] = "bfloat16"
    else:
        config["quantization_config"] = _fp8(plan)
    return (json.dumps(config, indent=2, ensure_ascii=False) + "\n").encode()


def _object(document: bytes) -> dict[str, Json]:
    try:
        config: Json = json.loads(document.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"config.json is not JSON: {str(error)[:160]}.", remedy="Its publisher has to mend it.") from error
    if not isinstance(config, dict):
        raise BadInputError(
            f"config.json holds a JSON {type(config).__name__}, not an object.", remedy="Its publisher has to mend it."
        )
    return config


def _parts(config: dict[str, Json]) -> list[dict[str, Json]]:
    """The configuration, and that of the language model inside of a multimodal one."""
    inner = config.get("text_config")
    return [config, *([inner] if isinstance(inner, dict) else [])]


def _fp8(plan: ConversionPlan) -> Json:
    return {
        "activation_scheme": "dynamic",
        "fmt": "e4m3",
        "modules_to_not_convert": list(plan.untouched),
        "quant_method": "fp8",
        "weight_block_size": list(BLOCK),
    }
