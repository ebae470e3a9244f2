"""What training keeps for each parameter, before any sharding."""

from collections.abc import Mapping

from dayzero.domain.architecture import ModelSpec, TrainingState
from dayzero.domain.planning import Optimizer, Training
from dayzero.stages.parameters.counting import expected_tensors
from dayzero.stages.parameters.quantization_targets import is_matrix

MIXED = ("bfloat16", "float16")
"""Native dtypes that are trained in mixed precision."""

SCALE_BLOCK = 256
"""Elements of an 8-bit moment that share a float32 scale (bitsandbytes 0.44 and later; 2048 in arXiv 2110.02861)."""


def parameter_bytes(native_dtype: str | None) -> Mapping[str, int]:
    """Bytes a parameter of weights, gradients and master weights.

    16-bit weights and gradients with float32 master weights (ZeRO, arXiv 1910.02054, section 3.1; mixed precision, arXiv
    1710.03740); others in float32 without a second copy. Trained in float16, gradients are unscaled into float32 copies before
    the optimizer takes them (loss scaling, arXiv 1710.03740, section 3.2; Megatron-LM's Float16OptimizerWithFloat16Params).
    """
    if native_dtype not in MIXED:
        return {"weights": 4, "gradients": 4}
    copies = {"gradient_copies": 4} if native_dtype == "float16" else {}
    return {"weights": 2, "gradients": 2, "master_weights": 4, **copies}


def moment_bytes(optimizer: Optimizer, matrices: int, others: int) -> Mapping[str, int]:
    """Bytes of an optimizer's moments for so many parameters in matrices of layers and others.

    AdamW two in float32; in 8 bits two of a byte with a scale for each block; SGD one, for momentum; Muon (arXiv 2502.16982,
    section 2) momentum alone for matrices, while AdamW takes embeddings, head, norms and biases.
    """
    count = matrices + others
    match optimizer:
        case Optimizer.SGD:
            return {"first_moment": 4 * count}
        case Optimizer.ADAMW_8BIT:
            scales = 2 * 4 * -(-count // SCALE_BLOCK)
            return {"first_moment": count, "second_moment": count, "moment_scales": scales}
        case Optimizer.MUON:
            return {"first_moment": 4 * count, "second_moment": 4 * others}
        case _:
            return {"first_moment": 4 * count, "second_moment": 4 * count}


def training_state_of(spec: ModelSpec, training: Training | None = None) -> TrainingState | None:
    """Bytes that are kept to train all parameters of the model (without a request: by AdamW); None where their number, or for
    Muon their shapes, are unknown. Quantized weights are trained in their native dtype; adapters are not counted here."""
    parameters = spec.parameters.total if spec.parameters.total is not None else spec.parameters.total_language
    if parameters is None or spec.native_dtype is None:
        return None
    optimizer = training.optimizer if training is not None else Optimizer.ADAMW
    matrices = 0
    if optimizer is Optimizer.MUON:
        tensors = expected_tensors(spec)
        if not tensors:
            return None
        matrices = sum(tensor.elements for tensor in tensors if is_matrix(tensor))
    items = {name: size * parameters for name, size in parameter_bytes(spec.native_dtype).items()}
    items |= moment_bytes(optimizer, matrices, parameters - matrices)
    return TrainingState("adam" if optimizer is Optimizer.ADAMW else optimizer.value, items)
