"""Problems that people reported when a new model met their stack, each with the answer that would have been right."""

import json
from typing import Any

import pytest

from dayzero.domain.planning import Choices, Degrees, Workload
from dayzero.domain.platforms import PlatformProfile
from dayzero.domain.tensors import TensorHeader
from dayzero.errors import BadInputError
from dayzero.stages.configuration.reading import read_configuration
from dayzero.stages.layout.constraints import violations
from dayzero.stages.layout.names import Leaf, place_of
from dayzero.stages.memory.ranks import MemoryModel, experts_on_rank
from dayzero.stages.memory.state_of_sequence import bytes_at, cached_bytes
from dayzero.stages.parameters.headers import logical_elements
from golden_models import spec_of
from small_structures import LLAMA, headers, llama_headers, read

GIB = 2**30
BARE = PlatformProfile("bare", "No figures", "bare")


def codes(spec: Any) -> set[str]:
    return {finding.code for finding in spec.findings}


@pytest.mark.parametrize("key", ["text_config", "llm_config"])
def test_a01_text_sizes_come_from_the_nested_configuration(key: str) -> None:
    text = {
        "model_type": "qwen3_5_moe_text",
        "num_hidden_layers": 40,
        "hidden_size": 2048,
        "vocab_size": 248320,
        "num_experts": 256,
    }
    config = read_configuration(
        json.dumps({"model_type": "qwen3_5_moe", key: text, "vision_config": {"depth": 27, "hidden_size": 1152}}).encode()
    )
    assert (config.layers, config.hidden_size, config.vocabulary_size, config.routed_experts) == (40, 2048, 248320, 256)
    assert [(tower.name, tower.layers, tower.hidden_size) for tower in config.towers] == [("vision_config", 27, 1152)]


def test_a01_a_null_nested_configuration_falls_back_to_the_top() -> None:
    assert len(read({**LLAMA, "text_config": None}).layers) == 2


def test_a02_draft_depth_is_read_where_the_text_is() -> None:
    config = read_configuration(
        json.dumps({"model_type": "qwen3_5", "text_config": {"num_hidden_layers": 64, "mtp_num_hidden_layers": 1}}).encode()
    )
    assert config.predict_layers == 1
    spec = spec_of("Qwen/Qwen3.5-27B")
    assert len(spec.layers) == 64 and spec.predict_layers == 1
    assert spec.parameters.checkpoint_total == spec.parameters.total + spec.parameters.by_component[
        "multi_token_prediction"
    ] - (spec.parameters.by_component.get("towers", 0) * 0)


def test_a03_null_is_absent() -> None:
    mixtral = {
        "model_type": "mixtral",
        "hidden_size": 6144,
        "num_attention_heads": 48,
        "num_key_value_heads": 8,
        "num_hidden_layers": 56,
        "head_dim": None,
        "intermediate_size": 16384,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "vocab_size": 32768,
        "sliding_window": None,
    }
    spec = read(mixtral)
    assert spec.layers[0].mixer.head_dim == 128 and spec.state.bytes_per_token == 229376


def test_a05_the_decoder_and_the_index_decide_on_tying() -> None:
    wrapper = {"model_type": "x_vl", "tie_word_embeddings": True, "text_config": {**LLAMA, "tie_word_embeddings": False}}
    untied = read(wrapper, headers(*llama_headers()))
    assert untied.tied_embeddings is False and untied.parameters.by_component["head"] == 6400
    flagged = read({**LLAMA, "tie_word_embeddings": True}, headers(*llama_headers(head=False)))
    assert flagged.tied_embeddings is True and "head" not in flagged.parameters.by_component
    lost = read(LLAMA, headers(*llama_headers(head=False)))
    assert any(finding.code == "embeddings.no_head" and finding.severity == "error" for finding in lost.findings)
    assert "embeddings.two_heads" in codes(read({**LLAMA, "tie_word_embeddings": True}, headers(*llama_headers())))


def test_a06_an_unknown_type_is_read_and_never_guessed() -> None:
    spec = read(
        {
            "model_type": "brand_new_attn",
            "architectures": ["BrandNewForCausalLM"],
            "num_hidden_layers": 32,
            "hidden_size": 4096,
            "auto_map": {"AutoConfig": "configuration_new.NewConfig"},
        }
    )
    assert spec.family is None and spec.remote_code and spec.hidden_size == 4096 and spec.layers == ()
    assert spec.parameters.total is None and spec.state.bytes_per_token is None
    assert "structure.unknown_architecture" in codes(spec)


def test_a07_rotary_embeddings_have_one_form() -> None:
    yarn = read({**LLAMA, "rope_theta": 10000, "rope_scaling": {"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1}})
    assert (yarn.rotary["default"].kind, yarn.rotary["default"].factor, yarn.rotary["default"].theta) == ("yarn", 40.0, 10000.0)
    assert yarn.rotary["default"].extra == {"beta_fast": "32", "beta_slow": "1"} and "rotary.extra_keys" in codes(yarn)
    newer = read({**LLAMA, "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"}})
    assert newer.rotary["default"].theta == 1e6 and newer.layers[0].mixer.rope_theta == 1e6
    stated = read({**LLAMA, "rope_scaling": {"rope_type": "yarn", "attn_factor": 0.8782488562869419, "factor": 4.0}})
    assert stated.rotary["default"].attention_factor == 0.8782488562869419
    by_kind = spec_of("google/gemma-4-26B-A4B").rotary
    assert (by_kind["full_attention"].theta, by_kind["sliding_attention"].theta) == (1e6, 1e4)


def test_a08_a_longer_list_is_the_drafts_and_a_shorter_one_an_error() -> None:
    flash = {
        "model_type": "deepseek_v4",
        "num_hidden_layers": 43,
        "num_nextn_predict_layers": 1,
        "compress_ratios": [0, 0] + [4, 128] * 20 + [4, 0],
        "hidden_size": 64,
        "num_attention_heads": 4,
        "head_dim": 16,
        "q_lora_rank": 8,
        "o_groups": 2,
        "o_lora_rank": 8,
        "sliding_window": 8,
        "qk_rope_head_dim": 4,
        "index_n_heads": 2,
        "index_head_dim": 8,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "vocab_size": 100,
    }
    spec = read(flash)
    assert [layer.mixer.compression for layer in spec.layers[:4]] == [None, None, 4, 128]
    assert "configuration.long_list" in codes(spec)
    with pytest.raises(BadInputError, match="compress_ratios has 42 items for 43 layers"):
        read({**flash, "compress_ratios": [4] * 42})


def test_a10_lists_that_count_from_one() -> None:
    spec = spec_of("moonshotai/Kimi-Linear-48B-A3B-Instruct")
    assert [layer.index for layer in spec.layers if layer.mixer.kind == "attention.mla"] == [3, 7, 11, 15, 19, 23, 26]
    assert spec.layers[0].mixer.head_dim == 128
    config = {
        "model_type": "kimi_linear",
        "num_hidden_layers": 3,
        "linear_attn_config": {"kda_layers": [1, 2], "full_attn_layers": [4]},
    }
    with pytest.raises(BadInputError, match="must name each of the 3 layers once"):
        read_configuration(json.dumps(config).encode())


def test_a12_quantization_that_stands_in_the_side_file() -> None:
    plain = {**LLAMA, "torch_dtype": "bfloat16"}
    side = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    spec = read(plain, side=side)
    assert spec.quantization is not None
    assert (spec.quantization.groups[0].scheme, spec.quantization.cache_dtype, spec.quantization.source) == (
        "fp8_tensor",
        "float8_e4m3fn",
        "hf_quant_config.json",
    )
    linear = 2 * (64 * 64 * 2 + 32 * 64 * 2 + 3 * 128 * 64)
    assert spec.weights.predicted_bytes == linear + 14 * 4 + 2 * (2 * 6400 + 5 * 64)
    assert spec.state.dtype == "bfloat16"


def test_a12_an_algorithm_without_a_method_and_a_map_of_modules() -> None:
    static = read({**LLAMA, "quantization_config": {"quant_algo": "FP8", "ignore": ["lm_head"], "kv_cache_scheme": "FP8"}})
    assert static.quantization is not None and static.quantization.groups[0].scheme == "fp8_tensor"
    modules = {f"model.layers.0.mlp.{name}_proj": {"quant_algo": "NVFP4"} for name in ("gate", "up", "down")}
    mixed = read(
        {
            **LLAMA,
            "quantization_config": {"quant_algo": "MIXED_PRECISION", "quant_method": "modelopt", "quantized_layers": modules},
        }
    )
    assert mixed.quantization is not None and mixed.quantization.groups[0].scheme == "nvfp4"
    plain = read(LLAMA).weights.predicted_bytes or 0
    fewer = 3 * 128 * 64 * 2 - (3 * 128 * 64 // 2 + 3 * 128 * 64 // 16)
    assert mixed.weights.predicted_bytes == plain - fewer


def test_a13_every_unexplained_tensor_is_named_at_once() -> None:
    rows = [
        *llama_headers(),
        *((f"model.layers.{at}.self_attn.k_norm.weight", "BF16", (16,)) for at in range(2)),
        ("model.layers.0.mlp.strange.weight", "BF16", (3,)),
        ("model.layers.1.mlp.stranger.weight", "BF16", (4,)),
    ]
    spec = read(LLAMA, headers(*rows))
    unexplained = next(finding for finding in spec.findings if finding.code == "parameters.unexplained")
    assert unexplained.names == ("model.layers.0.mlp.strange.weight", "model.layers.1.mlp.stranger.weight")
    assert all(layer.mixer.qk_norm == "head" for layer in spec.layers) and "structure.norm_in_headers" in codes(spec)
    scale = place_of("model.layers.0.mlp.down_proj.weight_scale_inv", 1)
    assert scale.leaf is Leaf.SCALE
    assert place_of("bert.embeddings.LayerNorm.beta", 1).suffix == "bias"


def test_b01_packed_words_in_a_nested_quantization() -> None:
    header = TensorHeader("model.layers.1.mlp.experts.0.gate_proj.weight_packed", "I32", (2048, 896), "f", 0, 2048 * 896 * 4)
    spec = spec_of("moonshotai/Kimi-K2.5")
    assert spec.quantization is not None
    assert logical_elements(header, place_of(header.name, 61), spec.quantization.bits) == 14680064
    assert spec.parameters.total_language == 1026408209408


def test_b02_block_scales_are_no_parameters() -> None:
    blocks = TensorHeader(
        "model.layers.0.mlp.experts.gate_up_proj_blocks", "U8", (128, 5760, 90, 16), "f", 0, 128 * 5760 * 90 * 16
    )
    scales = TensorHeader("model.layers.0.mlp.experts.gate_up_proj_scales", "U8", (128, 5760, 90), "f", 0, 128 * 5760 * 90)
    assert logical_elements(blocks, place_of(blocks.name, 36), 4) == 2123366400
    assert logical_elements(scales, place_of(scales.name, 36), 4) == 0


def test_b04_words_of_an_mlx_checkpoint() -> None:
    config = read_configuration(json.dumps({**LLAMA, "quantization": {"bits": 8, "group_size": 64}}).encode())
    assert config.quantization is not None and config.quantization.bits == 8
    word = TensorHeader("model.layers.0.mlp.up_proj.weight", "U32", (128, 16), "f", 0, 128 * 64)
    assert logical_elements(word, place_of(word.name, 2), config.quantization.bits) == 128 * 64
    assert place_of("model.layers.0.mlp.up_proj.biases", 2).leaf is Leaf.SCALE


def test_b06_a_gptq_checkpoint_is_sized_by_its_bits() -> None:
    spec = read(
        {
            "model_type": "qwen2",
            "torch_dtype": "float16",
            "hidden_size": 8192,
            "intermediate_size": 29696,
            "num_hidden_layers": 80,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
            "vocab_size": 152064,
            "tie_word_embeddings": False,
            "quantization_config": {"bits": 4, "group_size": 128, "quant_method": "gptq"},
        }
    )
    assert spec.weights.predicted_bytes is not None and abs(spec.weights.predicted_bytes - 42e9) < 0.03 * 42e9


def test_b07_the_head_is_counted_and_nothing_is_halved() -> None:
    spec = spec_of("meta-llama/Meta-Llama-3.1-70B")
    assert spec.parameters.total == 70553706496 and spec.weights.predicted_bytes == 141107412992


def test_b08_two_errors_that_cancel_are_both_absent() -> None:
    assert spec_of("Qwen/Qwen2.5-14B-Instruct").parameters.total == 14770033664
    assert spec_of("tiiuae/Falcon-H1-34B-Base").parameters.total == 33642221312


def test_b09_a_latent_cache_is_kept_once() -> None:
    spec = spec_of("deepseek-ai/DeepSeek-V3")
    assert spec.state.bytes_per_token == 70272
    assert cached_bytes(spec.layers, 1, 1, 2) == cached_bytes(spec.layers, 1, 8, 2) == 70272
    assert cached_bytes(spec.layers, 1, 1, 1) == 35136
    assert spec_of("moonshotai/Kimi-K2-Instruct").state.bytes_per_token == 70272
    assert spec_of("moonshotai/Kimi-K3").state.bytes_per_token == 27648


def test_b11_window_layers() -> None:
    small = {
        "model_type": "gpt_oss",
        "hidden_size": 2880,
        "num_hidden_layers": 24,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "intermediate_size": 2880,
        "vocab_size": 201088,
        "sliding_window": 128,
        "num_local_experts": 32,
        "num_experts_per_tok": 4,
        "max_position_embeddings": 131072,
    }
    assert bytes_at(read(small).state, 131072) == int(3.0029296875 * GIB)
    assert bytes_at(spec_of("openai/gpt-oss-120b").state, 131072) == int(4.50439453125 * GIB)
    # A window wider than the context acts as if there were none.
    wide = read({**small, "sliding_window": 10**6})
    assert bytes_at(wide.state, 131072) == 131072 * (wide.state.bytes_per_token or 0)


def test_b12_recurrent_layers_keep_a_constant_state() -> None:
    hybrid = {
        "model_type": "qwen3_5_text",
        "hidden_size": 2048,
        "num_hidden_layers": 32,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "intermediate_size": 4096,
        "vocab_size": 1000,
        "full_attention_interval": 4,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
    }
    state = read(hybrid).state
    assert (state.bytes_per_token, state.constant_bytes) == (32768, 24 * (2097152 + 49152))
    assert spec_of("Qwen/Qwen3.5-35B-A3B").state.bytes_per_token == 20480


def test_b12_lightning_attention_of_minimax_m1() -> None:
    flags = ([0] * 7 + [1]) * 10
    spec = read(
        {
            "model_type": "minimax_m1",
            "hidden_size": 6144,
            "num_hidden_layers": 80,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "intermediate_size": 9216,
            "num_local_experts": 32,
            "num_experts_per_tok": 2,
            "vocab_size": 200064,
            "attn_type_list": flags,
            "tie_word_embeddings": False,
        }
    )
    assert spec.state.bytes_per_token == 40960
    # 45.9 billion active parameters is what the publisher says.
    assert round(spec.parameters.active_by_convention["without_embeddings_and_head"] / 1e9, 1) == 45.9


def test_b14_more_ranks_than_key_value_heads_replicate_them() -> None:
    layers = spec_of("meta-llama/Meta-Llama-3.1-70B").layers
    each = {tp: cached_bytes(layers, 1, tp, 2) for tp in (4, 8, 16, 32)}
    assert each == {4: 81920, 8: 40960, 16: 40960, 32: 40960}


def test_b16_experts_in_a_latent_width() -> None:
    spec = spec_of("moonshotai/Kimi-K3")
    assert spec.parameters.by_component["experts"] == 2722740830208
    assert spec.weights.predicted_bytes == 1559943357632


def test_b18_a_mixture_is_no_dense_model() -> None:
    spec = spec_of("moonshotai/Kimi-K2-Instruct")
    assert spec.parameters.total == 1026408209408
    assert spec.parameters.active_by_convention["without_input_embedding"] == 31687072768
    assert spec.quantization is not None and spec.quantization.block_shape == (128, 128)


def test_b19_active_under_each_convention() -> None:
    conventions = spec_of("openai/gpt-oss-120b").parameters.active_by_convention
    assert conventions["with_embeddings_and_head"] == 5711982912
    assert round(conventions["without_input_embedding"] / 1e9, 1) == 5.1
    deepseek = spec_of("deepseek-ai/DeepSeek-V3").parameters.active_by_convention
    assert (
        round(deepseek["without_input_embedding"] / 1e9) == 37
        and deepseek["with_prediction"] > deepseek["with_embeddings_and_head"]
    )


def test_b15_experts_and_their_copies_are_divided_by_ep() -> None:
    spec = spec_of("deepseek-ai/DeepSeek-V3")
    degrees = Degrees(tp=1, pp=1, ep=8, dp=8)
    assert experts_on_rank(256, 32, 8) == 36
    plain, copied = (
        MemoryModel(spec, BARE, Workload(redundant_experts=redundant)).items(degrees, Choices(), 0) for redundant in (0, 32)
    )
    assert "redundant_experts" not in plain
    # 58 mixture layers, four more experts of 44,040,192 parameters in 8-bit floats on each rank, with their block scales.
    scales = 44040192 // 128**2 * 4
    assert copied["redundant_experts"] == 58 * 4 * (44040192 + scales)
    refused = violations(spec, degrees, 31)
    assert [no.family for no in refused] == ["experts"] and "31 redundant" in refused[0].reason


def test_zero_experts_hold_no_weights() -> None:
    # Published: 560 billion parameters, 27 billion active on average, at most 31.3 (LongCat-Flash, arXiv 2509.01322). The
    # modelling library builds 741 billion, for it gives zero experts weights that the checkpoint does not hold.
    spec = read(
        {
            "model_type": "longcat_flash",
            "vocab_size": 131072,
            "hidden_size": 6144,
            "num_layers": 28,
            "num_attention_heads": 64,
            "ffn_hidden_size": 12288,
            "q_lora_rank": 1536,
            "kv_lora_rank": 512,
            "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64,
            "v_head_dim": 128,
            "moe_topk": 12,
            "n_routed_experts": 512,
            "zero_expert_num": 256,
            "expert_ffn_hidden_size": 2048,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
        }
    )
    assert spec.parameters.total_language == 741053585408 - 28 * 256 * 4096 * 6144
    conventions = spec.parameters.active_by_convention
    average = conventions["with_zero_experts_at_random"] - spec.parameters.by_component["embeddings"]
    assert round(average / 1e9) == 27 and int(conventions["without_input_embedding"] / 1e8) == 313
    assert len(spec.layers) == 56 and spec.state.bytes_per_token == 56 * 576 * 2
