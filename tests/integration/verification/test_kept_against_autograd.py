"""What a training step is predicted to keep, against what autograd saves in the modelling library's own layers.

The prediction is of fused norms, which keep their input. The library's norms are several operators: beside the input they keep
the normalized input (from 16 bits: the input in float32) and one float32 a token.
"""

import json
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.planning import Recompute
from dayzero.stages.memory.kept import kept_bytes
from dayzero.stages.memory.step import Step
from dayzero.stages.structure.reading import read_spec

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
TOKENS, HIDDEN = 128, 256
_USUAL: dict[str, Any] = {"hidden_size": HIDDEN, "num_attention_heads": 4, "intermediate_size": 512, "vocab_size": 100}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "grouped": ("llama", {**_USUAL, "num_key_value_heads": 2}),
    "alone": ("llama", {**_USUAL, "num_key_value_heads": 4}),
    "mixture": ("qwen3_moe", {**_USUAL, "num_key_value_heads": 4, "head_dim": 64, "moe_intermediate_size": 128,
                              "num_experts": 8, "num_experts_per_tok": 2, "decoder_sparse_step": 1, "mlp_only_layers": []}),
}  # fmt: skip


def saved_bytes(name: str, arguments: dict[str, Any], dtype: str, *, checkpointed: bool) -> int:
    """Bytes of storage that autograd keeps for a forward pass, parameters and buffers left out."""
    config = CONFIG_MAPPING[name](**arguments, dtype=dtype)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=getattr(torch, dtype)).train()
    if "num_experts" in arguments:
        model.set_experts_implementation("grouped_mm")
    if checkpointed:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
    saved: dict[int, torch.Tensor] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in own:
            saved[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(torch.ones((1, TOKENS), dtype=torch.long), use_cache=False).logits.sum()
    return sum(tensor.untyped_storage().nbytes() for tensor in saved.values())


def of_one_layer(kind: str, dtype: str, *, checkpointed: bool) -> tuple[int, ModelSpec]:
    """What one more layer makes autograd keep, and the structure."""
    name, arguments = MODELS[kind]
    two, three = (
        saved_bytes(name, {**arguments, "num_hidden_layers": count}, dtype, checkpointed=checkpointed) for count in (2, 3)
    )
    config = {**CONFIG_MAPPING[name](**arguments, num_hidden_layers=2, dtype=dtype).to_dict(), "model_type": name}
    return three - two, read_spec(json.dumps(config, default=str).encode(), None)


def step(dtype: str) -> Step:
    return Step(TOKENS, TOKENS, {"float32": 4, "bfloat16": 2}[dtype], HIDDEN)


@pytest.mark.parametrize("kind", list(MODELS))
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_full_recomputation_keeps_a_layers_input(kind: str, dtype: str) -> None:
    saved, spec = of_one_layer(kind, dtype, checkpointed=True)
    assert saved == kept_bytes(spec.layers[0], step(dtype), Recompute.FULL)


@pytest.mark.parametrize("kind", list(MODELS))
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_without_recomputation_everything_is_kept_that_backward_reads(kind: str, dtype: str) -> None:
    saved, spec = of_one_layer(kind, dtype, checkpointed=False)
    layer = spec.layers[0]
    mixer = layer.mixer
    assert mixer is not None
    heads = (mixer.heads or 0) + (mixer.kv_heads or 0) if mixer.qk_norm else 0
    # Two norms over the hidden size, and two over the heads where queries and keys are normed.
    normed, sums = 2 * HIDDEN + heads * (mixer.head_dim or 0), 2 + heads
    unfused = TOKENS * 4 * (normed + sums)
    unexplained = saved - kept_bytes(layer, step(dtype), Recompute.NONE) - unfused
    if not layer.experts:
        assert unexplained == 0
    else:
        # Weights and numbers of the chosen experts, and the order of their tokens.
        assert 0 <= unexplained < 0.01 * saved
