"""Structure rules against the modelling library: tiny checkpoints that it builds and saves are read without a contradiction."""

from pathlib import Path

import pytest

from dayzero.adapters.hubs.directory import DirectoryHub
from dayzero.adapters.transfer.weights import WeightTransfer
from dayzero.domain.findings import Severity
from dayzero.domain.planning import Degrees
from dayzero.stages.layout.laying import lay_out
from dayzero.stages.structure.reading import read_spec
from dayzero.steps.headers import checkpoint_index

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

BASE = {
    "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48,
    "vocab_size": 64, "head_dim": 8,
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
LATENT = {
    "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "q_lora_rank": 12, "kv_lora_rank": 8,
    "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1,
    "num_key_value_heads": 4,
}  # fmt: skip
FAMILIES = {
    "llama": {},
    "mistral": {},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen2": {},
    "qwen2_moe": {**EXPERTS, "shared_expert_intermediate_size": 24},
    "qwen3": {},
    "qwen3_moe": EXPERTS,
    "deepseek_v2": {**LATENT, "n_shared_experts": 2},
    "deepseek_v3": {**LATENT, "n_shared_experts": 1},
    "gemma": {},
    "gemma2": {},
    "gemma3_text": {},
    "gpt_oss": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "glm4_moe": {"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "use_qk_norm": True},
    "minimax_m2": {"num_local_experts": 4, "num_experts_per_tok": 2},
}


@pytest.mark.parametrize("model_type", FAMILIES)
def test_saved_checkpoint(model_type: str, tmp_path: Path) -> None:
    fields = {**BASE, **FAMILIES[model_type]}
    if model_type.startswith("deepseek"):
        del fields["head_dim"]
    config = transformers.AutoConfig.for_model(model_type, **fields)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(tmp_path / "model")
    hub = DirectoryHub(tmp_path / "model")
    index = checkpoint_index(hub, hub.release(str(tmp_path / "model"), None))
    document = (tmp_path / "model" / "config.json").read_bytes()
    stated, found = read_spec(document, None), read_spec(document, index)
    assert [finding for finding in found.findings if finding.severity is not Severity.NOTE] == []
    assert stated.parameters.total_language == sum(parameter.numel() for parameter in model.parameters())
    assert found.parameters.total_language == stated.parameters.total_language
    assert found.parameters.active == stated.parameters.active
    assert found.parameters.by_component["embeddings"] == stated.parameters.by_component["embeddings"]
    degrees = Degrees() if model_type == "minimax_m2" else Degrees(tp=2)
    manifest = WeightTransfer().shard(tmp_path / "model", lay_out("c", found, index, degrees), tmp_path / "shards", None)
    held = sum(manifest.rank_weight_bytes(rank) for rank in range(degrees.world))
    assert index.weight_bytes <= held < 2 * index.weight_bytes
