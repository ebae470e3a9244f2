"""What training keeps for each parameter, before any sharding."""

from dayzero.domain.architecture import ModelSpec, TrainingState

_MIXED = {"weights": 2, "gradients": 2, "master_weights": 4, "first_moment": 4, "second_moment": 4}
_FULL = {"weights": 4, "gradients": 4, "first_moment": 4, "second_moment": 4}


def training_state_of(spec: ModelSpec) -> TrainingState | None:
    """Bytes that Adam keeps to train all parameters of the model; None where their number is unknown.

    Weights in a 16-bit dtype are trained in mixed precision: 16-bit weights and gradients with float32 master weights and
    moments, 16 bytes a parameter (ZeRO, arXiv 1910.02054, section 3.1); others in float32, likewise 16 bytes. Quantized
    weights are trained in their native dtype.
    """
    parameters = spec.parameters.total if spec.parameters.total is not None else spec.parameters.total_language
    if parameters is None or spec.native_dtype is None:
        return None
    items = _MIXED if spec.native_dtype in ("bfloat16", "float16") else _FULL
    return TrainingState("adam", {name: size * parameters for name, size in items.items()})
