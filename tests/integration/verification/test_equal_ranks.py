"""One model at tp 1, 2 and 4: ranks that read nothing but their own shards, layer by layer while they compute, agree."""

from pathlib import Path
from typing import Any

import pytest
from verification_shards import shard_model

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from safetensors.torch import load_file  # noqa: E402 - after importorskip

from dayzero.adapters.conversion.converting import convert_checkpoint  # noqa: E402 - after importorskip
from dayzero.adapters.runners.isolated import SubprocessRunner  # noqa: E402 - after importorskip
from dayzero.codec import load  # noqa: E402 - after importorskip
from dayzero.domain.conversion import WeightFormat  # noqa: E402 - after importorskip
from dayzero.domain.observed_parallel import ParallelObserved  # noqa: E402 - after importorskip
from dayzero.domain.planning import Degrees  # noqa: E402 - after importorskip
from dayzero.domain.runs import Observation, RunRequest  # noqa: E402 - after importorskip
from dayzero.domain.verdict import Verdict  # noqa: E402 - after importorskip
from dayzero.stages.judging.checks import judge  # noqa: E402 - after importorskip
from observing import LIMITS, completed  # noqa: E402 - after importorskip

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
BASE: dict[str, Any] = {
    "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": 96,
    "vocab_size": 70, "head_dim": 8, "pad_token_id": 0, "tie_word_embeddings": False,
}  # fmt: skip
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "dense": ("llama", {}),
    "moe": ("qwen3_moe", {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}),
    "mla": ("deepseek_v3", {
        "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "q_lora_rank": 12, "kv_lora_rank": 8,
        "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "first_k_dense_replace": 1, "n_group": 2,
        "topk_group": 1, "num_key_value_heads": 8, "n_shared_experts": 1, "head_dim": None}),
    "tied": ("qwen3", {"tie_word_embeddings": True}),
    # Four ranks of whole blocks: 4 × 128 columns of every matrix that is cut.
    "fp8": ("llama", {"hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64,
                      "intermediate_size": 512}),
}  # fmt: skip


def save(kind: str, into: Path) -> Path:
    """The model with weights wide enough that a wrong slice shows, in bfloat16."""
    family, own = MODELS[kind]
    fields = {name: value for name, value in {**BASE, **own}.items() if value is not None}
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(family, **fields)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    for parameter in model.parameters():
        wide = 1.6 / config.hidden_size**0.5 if parameter.dim() > 1 else 0.1
        noise = (torch.randn(parameter.shape) * wide).to(torch.bfloat16)
        parameter.data = noise if parameter.dim() > 1 else parameter.data + noise
    model.save_pretrained(into / "plain")
    if kind != "fp8":
        return into / "plain"
    convert_checkpoint(into / "plain", WeightFormat.FP8_BLOCK, into / "fp8")
    return into / "fp8"


def observed(runner: SubprocessRunner, model: Path, tp: int, folder: Path) -> ParallelObserved:
    degrees = Degrees(tp=tp)
    shard_model(model, folder / f"tp{tp}", degrees)
    request = RunRequest(Observation.PARALLEL, "cpu", str(model), str(folder / f"tp{tp}"), degrees)
    outcome = completed(runner, request)
    result = judge(request, outcome, load, LIMITS)
    assert result.checks[0].verdict is (Verdict.PASS if tp > 1 else Verdict.NOT_RUN), result.checks[0].reason
    return load(ParallelObserved, outcome.document)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_logits_of_one_two_and_four_ranks(runner: SubprocessRunner, tmp_path: Path, kind: str) -> None:
    model = save(kind, tmp_path)
    for tp in (1, 2, 4):
        found = observed(runner, model, tp, tmp_path)
        # Against one process that holds everything: what is left is the order of sums in float32.
        assert found.between.rms_relative is not None and found.between.rms_relative < 2e-6, tp
        assert found.top1_agreement == 1.0
        weights = {name: one for path in model.glob("*.safetensors") for name, one in load_file(path).items()}
        held = [rank.weight_bytes for rank in found.ranks]
        assert len(held) == tp and max(held) < sum(one.numel() * one.element_size() for one in weights.values()) * 1.1 / tp**0.5
