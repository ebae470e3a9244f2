"""Weights from a seed, for an architecture that has none yet. Imported by child processes only."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from dayzero.adapters.runners import loading
from dayzero.domain.runs import Observation, RunRequest
from dayzero.errors import BlockedError

PEAKED = ("q_proj", "k_proj", "q_b_proj", "kv_b_proj", "kv_a_proj_with_mqa")
"""Projections whose gain makes attention peaked, so that a fault in it shows."""


def with_dummy_weights(request: RunRequest, into: Path) -> RunRequest:
    """The request on a checkpoint that is made now from option `dummy_seed` and the configuration in its model folder.

    BlockedError: the modelling library cannot build that configuration.
    """
    loading.quiet()
    if request.observation is Observation.PARALLEL:
        # Ranks are forked from this process, which may have started no threads by then.
        torch.set_num_threads(1)
    seed = loading.option_int(request, "dummy_seed", 0, least=0)
    source = loading.model_folder(request)
    config = loading.read_config(source)
    dtype = loading.native_dtype(config, request.dtype)
    torch.manual_seed(seed)
    try:
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, trust_remote_code=False)
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise BlockedError(
            f"the modelling library cannot build the reduced configuration ({first}).",
            remedy="This architecture is rehearsed when the library, or its reduction, can build it.",
        ) from error
    _fill(model, seed)
    model.generation_config.do_sample = False
    model.generation_config.eos_token_id = None
    model.save_pretrained(into)
    return replace(request, model_dir=str(into.resolve()))


def _fill(model: Any, seed: int) -> None:
    """Matrices get weights that matter in every layer; everything else keeps what the library starts a training with."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.is_floating_point() and _is_matrix(name, parameter):
                parameter.copy_(weights_of(name, tuple(parameter.shape), seed))
        for name, buffer in model.named_buffers():
            if name.endswith("tid2eid"):
                buffer.copy_(_choices(model, tuple(buffer.shape), seed))
            elif name.endswith("e_score_correction_bias"):
                buffer.copy_(0.05 * normal(name, tuple(buffer.shape), seed))


def _is_matrix(name: str, parameter: torch.Tensor) -> bool:
    return parameter.dim() == 2 or (parameter.dim() == 3 and "experts" in name)


def weights_of(name: str, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """A parameter's values: matrices scaled by their input width, norms about 1, embeddings standard normal."""
    module = name.removesuffix(".weight").split(".")[-1]
    if len(shape) == 1:
        return 1.0 + 0.1 * normal(name, shape, seed)
    if module == "embed_tokens":
        return normal(name, shape, seed)
    gain = 2.0 if module in PEAKED else 3.0 if module in ("gate", "lm_head") else 1.5
    return float(gain * shape[-1] ** -0.5) * normal(name, shape, seed)


def normal(name: str, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Standard normal numbers that depend on the name and the seed alone, not on the order of parameters."""
    drawn = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return torch.randn(shape, generator=torch.Generator().manual_seed(int.from_bytes(drawn[:7], "big")))


def _choices(model: Any, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Distinct experts for each token of a table that routes by token."""
    text = model.config.get_text_config()
    experts = int(getattr(text, "n_routed_experts", 0) or getattr(text, "num_local_experts", 0) or shape[-1])
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([torch.randperm(experts, generator=generator)[: shape[-1]] for _ in range(shape[0])])
