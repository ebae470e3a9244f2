"""The families whose sharding rules count as proven: ranks that hold their own shards alone agree with one process.

Each is a tiny model of random weights that the library builds and saves. The rules which the first cases name are what a family
was chosen for: copied key-value heads, vocabulary rows with padding, norms over all heads, slices and copies of experts.
"""

from pathlib import Path
from typing import Any

import pytest
from verification_shards import shard_model

from dayzero.adapters.runners.isolated import SubprocessRunner
from dayzero.codec import load
from dayzero.domain.planning import Degrees
from dayzero.domain.runs import Observation, RunEnd, RunRequest
from dayzero.domain.verdict import Verdict
from dayzero.stages.judging.checks import judge
from dayzero.stages.structure.families import FAMILIES
from observing import LIMITS, completed

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

BASE: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48,
    "vocab_size": 70, "head_dim": 8, "pad_token_id": 0,
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
LOCAL = {"num_local_experts": 4, "num_experts_per_tok": 2}
LATENT = {
    "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "q_lora_rank": 12, "kv_lora_rank": 8,
    "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1,
    "num_key_value_heads": 4, "n_shared_experts": 1, "head_dim": None,
}  # fmt: skip
SPARSE = {"index_n_heads": 2, "index_head_dim": 8, "index_topk": 64}
MODELS: dict[str, dict[str, Any]] = {
    "llama": {}, "mistral": {}, "qwen2": {}, "qwen3": {}, "gemma": {}, "gemma2": {}, "gemma3_text": {}, "mixtral": LOCAL,
    "qwen2_moe": {**EXPERTS, "shared_expert_intermediate_size": 24}, "qwen3_moe": EXPERTS,
    "deepseek_v2": LATENT, "deepseek_v3": LATENT, "deepseek_v32": {**LATENT, **SPARSE}, "gpt_oss": LOCAL, "minimax_m2": LOCAL,
    "glm4_moe": {**EXPERTS, "n_routed_experts": 8, "use_qk_norm": True}, "glm4_moe_lite": LATENT,
    "olmoe": {"num_experts": 4, "num_experts_per_tok": 2}, "olmo2": {}, "granite": {}, "smollm3": {}, "seed_oss": {},
    "ernie4_5": {}, "cwm": {}, "ministral3": {}, "exaone4": {},
}  # fmt: skip
SAME_AS = {"kimi_k2": "deepseek_v3", "qwen3_vl_text": "qwen3", "qwen3_vl_moe_text": "qwen3_moe", "kimi_k25": "deepseek_v3"}
"""Language models that are another one's under a name of their own."""

HARD = [
    ("llama", Degrees(tp=4), 0),
    ("mixtral", Degrees(tp=2, dp=2, etp=4), 0),
    ("mixtral", Degrees(tp=2, ep=2, etp=2, dp=2), 0),
    ("mixtral", Degrees(ep=2, dp=2), 2),
    ("minimax_m2", Degrees(tp=4), 0),
    ("gpt_oss", Degrees(tp=2, ep=2), 0),
    ("gemma3_text", Degrees(tp=2, pp=2), 0),
]


def save(family: str, into: Path) -> Path:
    """A tiny model of the family, its weights wide enough that a wrong rule shows."""
    fields = {name: value for name, value in {**BASE, **MODELS[family]}.items() if value is not None}
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.for_model(family, **fields), dtype=torch.float32
    )
    for parameter in model.parameters():
        noise = torch.randn_like(parameter) * (0.2 if parameter.dim() > 1 else 0.1)
        parameter.data = noise if parameter.dim() > 1 else parameter.data + noise
    model.save_pretrained(into)
    return into


def agrees(runner: SubprocessRunner, family: str, degrees: Degrees, redundant: int, folder: Path) -> None:
    model = save(family, folder / "model")
    manifest = shard_model(model, folder / "shards", degrees, redundant)
    request = RunRequest(Observation.PARALLEL, "cpu", str(model), str(folder / "shards"), degrees)
    outcome = completed(runner, request)
    result = judge(request, outcome, load, LIMITS)
    assert result.checks[0].verdict is Verdict.PASS, result.checks[0].reason
    held = [row.value for row in result.measurements if row.name == "rank_weight_bytes"]
    assert held == [manifest.rank_weight_bytes(rank) for rank in range(degrees.world)]


@pytest.mark.parametrize(("family", "degrees", "redundant"), HARD)
def test_hard_rules(runner: SubprocessRunner, tmp_path: Path, family: str, degrees: Degrees, redundant: int) -> None:
    agrees(runner, family, degrees, redundant, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("degrees", [Degrees(tp=2), Degrees(pp=2), Degrees(tp=2, pp=2)], ids=str)
@pytest.mark.parametrize("family", MODELS)
def test_every_proven_family(runner: SubprocessRunner, tmp_path: Path, family: str, degrees: Degrees) -> None:
    agrees(runner, family, degrees, 0, tmp_path)


def test_every_family_that_counts_as_proven_is_proven_here() -> None:
    proven = {name for name, family in FAMILIES.items() if family.sharded}
    assert proven == {*MODELS, *SAME_AS}
    assert set(SAME_AS.values()) <= set(MODELS)


def test_rules_that_nobody_has_proven_are_not_run(runner: SubprocessRunner, tmp_path: Path) -> None:
    model = save("llama", tmp_path / "model")
    shard_model(model, tmp_path / "shards", Degrees(tp=2))
    config = model / "config.json"
    config.write_text(config.read_text().replace('"llama"', '"internlm3"'))
    request = RunRequest(Observation.PARALLEL, "cpu", str(model), str(tmp_path / "shards"), Degrees(tp=2))
    outcome = runner.run(request, LIMITS)
    assert outcome.end is not RunEnd.COMPLETED
    assert "the sharding rules of internlm3 are derived from its structure" in outcome.reason + outcome.log_tail
