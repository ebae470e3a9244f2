"""One model made from a seed, prefilled and decoded in a memory cgroup of its own, beside what is predicted for it.

    python tests/memory_run.py KIND PROMPT_TOKENS [small]     prints one JSON document
    python tests/memory_run.py KIND 0 save FOLDER               writes the model as a checkpoint

The declared baseline: the same process after importing the libraries and running a model of the same class with one small
layer, so that kernels, threads and code are there already.
"""

import gc
import json
import sys
import time
import warnings
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from cgroups import MemoryGroup, own_group
from dayzero.adapters.runners.measuring import Peak, held_bytes
from dayzero.adapters.runners.observe_memory import ATTENTION, EXPERTS, prefill_and_decode
from dayzero.domain.planning import Choices, Degrees, Workload
from dayzero.domain.platforms import PlatformProfile
from dayzero.stages.memory.ranks import MemoryModel
from dayzero.stages.structure.reading import read_spec

NEW_TOKENS = 4
DTYPE = "float32"
"""The dtype in which this machine computes at full speed."""

_USUAL: dict[str, Any] = {"num_hidden_layers": 4, "num_attention_heads": 16, "vocab_size": 32000, "tie_word_embeddings": False,
                          "max_position_embeddings": 16384, "dtype": DTYPE}  # fmt: skip
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "dense": ("llama", {**_USUAL, "hidden_size": 2048, "num_key_value_heads": 4, "intermediate_size": 5632}),
    "moe": ("qwen3_moe", {**_USUAL, "hidden_size": 1024, "num_key_value_heads": 4, "head_dim": 64, "intermediate_size": 768,
                          "moe_intermediate_size": 768, "num_experts": 32, "num_experts_per_tok": 4, "decoder_sparse_step": 1,
                          "mlp_only_layers": []}),
    "mla": ("deepseek_v3", {**_USUAL, "hidden_size": 1536, "num_key_value_heads": 16, "head_dim": 64, "q_lora_rank": 768,
                            "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
                            "intermediate_size": 6144, "moe_intermediate_size": 1024, "n_routed_experts": 16,
                            "num_experts_per_tok": 4, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1,
                            "topk_group": 1}),
}  # fmt: skip
"""A dense, a mixture and a latent-attention model with at least 1 GiB of weights: model type and configuration."""

SMALL: dict[str, Any] = {"num_hidden_layers": 3, "vocab_size": 8000}
"""What a scaled-down version has instead; much smaller, and what libraries keep for themselves (see the benchmarks) would be a
sixth of all."""

WARMING: dict[str, Any] = {"num_hidden_layers": 1, "vocab_size": 512, "hidden_size": 64, "intermediate_size": 64,
                           "moe_intermediate_size": 16, "num_experts": 4, "n_routed_experts": 4}  # fmt: skip


def config_of(kind: str, small: bool) -> tuple[str, dict[str, Any]]:
    """The model type and configuration of a kind."""
    name, arguments = KINDS[kind]
    return name, {**arguments, **(SMALL if small else {})}


def build(name: str, arguments: dict[str, Any]) -> Any:
    """The model with weights from a seed, without a second copy of anything."""
    config = CONFIG_MAPPING[name](**arguments)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, attn_implementation=ATTENTION, dtype=getattr(torch, DTYPE))
    model.to_empty(device="cpu")
    seeded = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.02, generator=seeded)
        for module in model.modules():
            if module._buffers:
                model._init_weights(module)
    if "num_experts_per_tok" in arguments:
        model.set_experts_implementation(EXPERTS)
    return model.eval()


def warm(name: str, arguments: dict[str, Any]) -> None:
    """Run a small model of the same class, and leave nothing of it."""
    small = {key: WARMING.get(key, value) for key, value in arguments.items()}
    prefill_and_decode(build(name, small), torch.ones((1, 64), dtype=torch.long), 1)
    gc.collect()


def measure(kind: str, prompt: int, small: bool, group: MemoryGroup | None) -> dict[str, Any]:
    """Predicted items and what was measured, with their conditions."""
    name, arguments = config_of(kind, small)
    warm(name, arguments)
    baseline, peak, began = group.usage_bytes() if group else 0, Peak(), time.monotonic()
    model = build(name, arguments)
    ids = torch.randint(3, 500, (1, prompt), generator=torch.Generator().manual_seed(0))
    state = prefill_and_decode(model, ids, NEW_TOKENS)
    resident = peak.bytes()
    taken = group.peak_bytes() - baseline if group else resident
    config = json.dumps({**CONFIG_MAPPING[name](**arguments).to_dict(), "model_type": name}, default=str)
    workload = Workload(context_tokens=prompt + NEW_TOKENS, output_tokens=NEW_TOKENS)
    budget = MemoryModel(read_spec(config.encode(), None), PlatformProfile("cpu", "CPU", "cpu"), workload)
    weights = held_bytes(model)
    items = dict(budget.rank_items(Degrees(), Choices(), 0, weights))
    return {
        "kind": kind, "model_type": name, "parameters": sum(one.numel() for one in model.parameters()), "dtype": DTYPE,
        "prompt_tokens": prompt, "new_tokens": NEW_TOKENS, "predicted_items_bytes": items,
        "predicted_bytes": sum(items.values()), "measured_bytes": taken, "peak_of": group.peak if group else "VmHWM",
        "baseline_bytes": baseline or peak.baseline_bytes, "resident_peak_bytes": resident, "weights_bytes": weights,
        "state_bytes": state, "error": sum(items.values()) / taken - 1, "took_s": round(time.monotonic() - began, 1),
    }  # fmt: skip


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(2)
    if sys.argv[3:4] == ["save"]:
        build(*config_of(sys.argv[1], False)).save_pretrained(sys.argv[4])
        sys.exit()
    with own_group() as mine:
        print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), "small" in sys.argv[3:], mine)))
