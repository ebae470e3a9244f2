"""Problems that people reported when a new model met their sharding, each with the smallest data that shows it."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from architectures import EIGHT, index_of_model, slice_of, spec_of, write_model
from checkpoints import DEEPSEEK, spec_for
from dayzero.domain.findings import Severity
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import ShardManifest
from dayzero.domain.tensors import CheckpointIndex, TensorHeader
from dayzero.errors import BadInputError
from dayzero.stages.layout.constraints import violations
from dayzero.stages.layout.cut import cut_by, largest_power_of_two, padded_rows
from dayzero.stages.layout.identical import identical_findings, identical_slices
from dayzero.stages.layout.laying import UncuttableError, coordinates_of, lay_out, partition_of
from dayzero.stages.layout.partition import copies_of, placed, slot_counts, slots_of
from dayzero.stages.layout.ranks import RankFiles, fold, unfold
from dayzero.stages.layout.rules import Rules
from dayzero.stages.layout.runs import Run
from dayzero.stages.layout.shares import rank_weight_bytes, weight_table
from small_structures import headers

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 512, "num_hidden_layers": 1, "num_attention_heads": 28, "num_key_value_heads": 4,
    "head_dim": 16, "intermediate_size": 1024, "vocab_size": 100, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip


def part(config: dict[str, Any], name: str, dtype: str, shape: tuple[int, ...], degrees: Degrees, rank: int = 0):
    """What a rank holds of a tensor of the configuration."""
    spec = spec_for(config)
    place = placed(name, spec)
    rule = Rules(spec).rule_at(place)
    size = {"BF16": 2, "F32": 4, "F16": 2, "F8_E4M3": 1, "U8": 1, "I32": 4, "I64": 8}[dtype]
    elements = 1
    for length in shape:
        elements *= length
    header = TensorHeader(name, dtype, shape, "model.safetensors", 0, size * elements)
    at = coordinates_of(rank, degrees)
    return cut_by(rule, header, place, spec, degrees.tp, at.tp)


def test_c01_heads_that_do_not_divide() -> None:
    spec = spec_for(LLAMA)
    fitting = [tp for tp in range(1, 33) if not violations(spec, Degrees(tp=tp))]
    assert fitting == [1, 2, 4]
    assert {no.family: no.reason for no in violations(spec, Degrees(tp=8))} == {
        "heads": "28 heads do not divide by tp 8",
    }
    wide = spec_for({**LLAMA, "num_attention_heads": 32, "num_key_value_heads": 16, "intermediate_size": 1536})
    assert "32 heads do not divide by tp 3" in [no.reason for no in violations(wide, Degrees(tp=3))]


@pytest.mark.parametrize(
    ("size", "tp", "largest"), [(18432, 32, 16), (1536, 8, 4), (768, 4, 2), (320, 8, 1), (1280, 4, 2), (2048, 8, 16)]
)
def test_c02_blocks_of_128_limit_tensor_parallelism(size: int, tp: int, largest: int) -> None:
    assert largest_power_of_two([Run(size, size, "columns")], 128) == largest
    config = {**DEEPSEEK, "hidden_size": 256, "intermediate_size": size, "num_attention_heads": 32,
              "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}  # fmt: skip
    name = "model.layers.0.mlp.gate_proj.weight"
    if tp <= largest:
        assert part(config, name, "F8_E4M3", (size, 256), Degrees(tp=tp)).shape == (size // tp, 256)
        return
    for tensor, dtype, shape in ((name, "F8_E4M3", (size, 256)), (f"{name}_scale_inv", "F32", (-(-size // 128), 2))):
        with pytest.raises(UncuttableError) as refused:
            part(config, tensor, dtype, shape, Degrees(tp=tp))
        assert refused.value.family == "block quantization"
        assert f"{size // tp} a rank is no multiple of the quantization block 128; tp {largest} is" in refused.value.reason
        assert refused.value.numbers["largest"] == largest


def test_c02_experts_may_be_whole_instead() -> None:
    config = {**DEEPSEEK, "moe_intermediate_size": 320,
              "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}  # fmt: skip
    with pytest.raises(UncuttableError, match="or whole experts by ep"):
        part(config, "model.layers.1.mlp.experts.0.up_proj.weight", "F8_E4M3", (320, 32), Degrees(tp=4))


def test_c04_a_last_half_block_is_a_block() -> None:
    config = {**DEEPSEEK, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "hidden_size": 7168,
              "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}  # fmt: skip
    table = weight_table(spec_for(config), None)
    assert table is not None
    name = "model.layers.0.self_attn.kv_a_proj_with_mqa.weight"
    for degrees in (Degrees(), Degrees(tp=2)):
        assert part(config, f"{name}_scale_inv", "F32", (5, 56), degrees).shape == (5, 56)
        assert part(config, name, "F8_E4M3", (576, 7168), degrees).shape == (576, 7168)


def test_c05_scales_of_stacked_experts_are_each_experts_own() -> None:
    name = "model.layers.0.mlp.experts.gate_up_proj"
    config = {**EIGHT["mxfp4"], "num_local_experts": 2, "intermediate_size": 96, "hidden_size": 256,
              "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}  # fmt: skip
    from dayzero.stages.layout.stored import stored_tensors

    stored = {tensor.name: tensor.shape for tensor in stored_tensors(spec_for(config)) or ()}
    assert stored[f"{name}_scale_inv"] == (2, 2, 2)
    # 192 columns of an expert are no whole blocks for two ranks, whichever expert they belong to.
    with pytest.raises(UncuttableError, match="96 a rank is no multiple of the quantization block 128"):
        part(config, f"{name}_scale_inv", "F32", (2, 2, 2), Degrees(tp=2))


PHI3 = {**LLAMA, "model_type": "phi3", "num_attention_heads": 4, "num_key_value_heads": 2}


def test_c07_fused_projections_are_cut_one_by_one() -> None:
    # [q1 q2 q3 q4 | k1 k2 | v1 v2] rows of 16, for the second of two ranks.
    cut = part(PHI3, "model.layers.0.self_attn.qkv_proj.weight", "BF16", (128, 512), Degrees(tp=2), 1)
    assert (cut.dim, cut.pieces, cut.shape) == (0, ((32, 64), (80, 96), (112, 128)), (64, 512))
    cut = part(PHI3, "model.layers.0.mlp.gate_up_proj.weight", "BF16", (2048, 512), Degrees(tp=2), 1)
    assert cut.pieces == ((512, 1024), (1536, 2048))


def test_c07_interleaved_projections_are_cut_between_heads() -> None:
    config = {**EIGHT["hybrid"], "model_type": "qwen3_next"}
    # Four key heads with two value heads each: (4 + 4 + 8 + 8) rows and (2 + 2) rows a key head.
    cut = part(config, "model.layers.0.linear_attn.in_proj_qkvz.weight", "BF16", (96, 32), Degrees(tp=2), 1)
    assert cut.pieces == ((48, 96),)
    cut = part(config, "model.layers.0.linear_attn.in_proj_ba.weight", "BF16", (16, 32), Degrees(tp=4), 3)
    assert cut.pieces == ((12, 16),)
    # Qwen3.5 has query, key and value one after the other.
    cut = part(EIGHT["hybrid"], "model.layers.0.linear_attn.in_proj_qkv.weight", "BF16", (64, 32), Degrees(tp=2), 1)
    assert cut.pieces == ((8, 16), (24, 32), (48, 64))


def test_c07_an_unknown_fused_tensor_is_refused() -> None:
    for name in ("self_attn.query_key_value", "self_attn.qkv", "self_attn.W_pack", "mlp.dense_h_to_4h"):
        with pytest.raises(UncuttableError, match="several projections in one tensor; how they lie in it is not known"):
            part(LLAMA, f"model.layers.0.{name}.weight", "BF16", (512, 512), Degrees(tp=2))
        assert part(LLAMA, f"model.layers.0.{name}.weight", "BF16", (512, 512), Degrees()).shape == (512, 512)


def digests_of(manifest: ShardManifest, source: bytes, index: CheckpointIndex) -> dict[int, dict[str, str]]:
    """The digest of every slice, cut from the checkpoint's one file as the manifest says."""
    known = {header.name: header for header in index.tensors}
    return {
        file.rank: {
            tensor.name: hashlib.sha256(slice_of(source, known[tensor.name], tensor)).hexdigest() for tensor in file.tensors
        }
        for file in manifest.files
    }


def test_c08_every_rank_loads_shard_0(tmp_path: Path) -> None:
    spec, index, degrees = spec_of("dense"), write_model("dense", tmp_path), Degrees(tp=3)
    source = (tmp_path / "model.safetensors").read_bytes()
    right = lay_out("c", spec, index, degrees)
    assert identical_slices(right, digests_of(right, source, index)) == ()
    # The planted fault: in projections of attention every rank takes the part of rank 0, in shapes that fit.
    assert right.rules is not None
    cuts = {cut for name, cut, *_ in right.rules.tensors if ".self_attn." in name}
    planted = tuple(replace(cut, parts=cut.parts[:1] * 3) if at in cuts else cut for at, cut in enumerate(right.rules.cuts))
    rules = replace(right.rules, cuts=planted)
    made = RankFiles("c", rules, degrees, 0)
    wrong = replace(right, files=tuple(made.file_of(rank) for rank in range(3)), rules=rules)
    assert [file.size_bytes for file in wrong.files] == [file.size_bytes for file in right.files]
    (found,) = identical_findings(identical_slices(right, digests_of(wrong, source, index)))
    assert found.severity is Severity.ERROR and found.code == "shards.identical"
    assert found.numbers["count"] == sum(".self_attn." in name for name, *_ in right.rules.tensors)
    assert "model.layers.0.self_attn.k_proj.weight (ranks 0 and 1)" in found.message
    # And a manifest of such a layout is not believed.
    with pytest.raises(BadInputError, match="contradict themselves at cut"):
        unfold(fold(wrong))


def test_c08_copies_are_not_asked_and_stored_heads_are_no_error(tmp_path: Path) -> None:
    spec, index = spec_of("dense"), index_of_model("dense")
    manifest = lay_out("c", spec, index, Degrees(tp=3))
    zeros = bytes(max(header.end for header in index.tensors))
    pairs = identical_slices(manifest, digests_of(manifest, zeros, index))
    names = {pair.name for pair in pairs}
    assert "model.layers.0.mlp.up_proj.weight" in names and "model.norm.weight" not in names
    assert identical_slices(manifest, {0: {}, 1: {}}) == () == identical_slices(manifest)
    heads = [pair for pair in pairs if pair.name.endswith("k_proj.weight")]
    assert [finding.severity for finding in identical_findings(heads)] == [Severity.WARNING]
    assert [finding.severity for finding in identical_findings(pairs)] == [Severity.ERROR]
    assert identical_findings(()) == ()


def test_c09_key_value_heads_are_copied_whole_where_tp_exceeds_them() -> None:
    config = {**LLAMA, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128}
    assert violations(spec_for(config), Degrees(tp=8)) == ()
    first = [
        part(config, "model.layers.0.self_attn.k_proj.weight", "BF16", (512, 512), Degrees(tp=8), rank).pieces[0][0] // 128
        for rank in range(8)
    ]
    assert first == [rank * 4 // 8 for rank in range(8)]
    assert part(config, "model.layers.0.self_attn.k_proj.weight", "BF16", (512, 512), Degrees(tp=2), 1).pieces == ((256, 512),)
    neither = violations(spec_for({**config, "num_attention_heads": 24, "intermediate_size": 1536}), Degrees(tp=6))
    assert [(no.family, no.reason) for no in neither] == [
        ("kv heads", "4 key-value heads do not divide by tp 6, nor tp 6 by them")
    ]


def test_c09_norms_over_all_key_heads_follow_their_heads() -> None:
    config = {**LLAMA, "model_type": "minimax_m2", "num_local_experts": 4, "num_experts_per_tok": 2, "num_attention_heads": 16}
    cut = part(config, "model.layers.0.self_attn.k_norm.weight", "BF16", (64,), Degrees(tp=8), 5)
    assert cut.pieces == ((32, 48),)
    cut = part(config, "model.layers.0.self_attn.q_norm.weight", "BF16", (256,), Degrees(tp=8), 5)
    assert cut.pieces == ((160, 192),)


def test_b14_cluster_total_of_key_heads_doubles_beyond_them() -> None:
    config = {**LLAMA, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128}
    rows = {tp: part(config, "model.layers.0.self_attn.k_proj.weight", "BF16", (1024, 512), Degrees(tp=tp)).shape[0]
            for tp in (4, 8, 16, 32)}  # fmt: skip
    assert rows == {4: 256, 8: 128, 16: 128, 32: 128}


def test_c10_vocabulary_is_padded_to_a_multiple_of_64_that_divides() -> None:
    assert padded_rows(151552, 6) == 151680 == 6 * 25280
    assert padded_rows(151552, 1) == 151552
    assert padded_rows(201088, 8) == 201088
    config = {**LLAMA, "vocab_size": 151552, "num_attention_heads": 6, "num_key_value_heads": 6, "intermediate_size": 1536}
    last = part(config, "lm_head.weight", "BF16", (151552, 512), Degrees(tp=6), 5)
    assert last.shape == (25280, 512) and last.pieces == ((126400, 151552),)
    assert last.padding_bytes == 128 * 512 * 2
    table = weight_table(spec_for(config), None)
    assert table is not None
    (stage,) = table.stages(Degrees(tp=6))
    # The padding is in the items, and named: embeddings and head have it on the last rank, all ranks have its room.
    assert stage.items_bytes["head"] == 25280 * 512 * 2


def test_c12_a_tensor_used_twice_is_there_for_both() -> None:
    # Tied embeddings are read by the first and by the last stage; a single stored draft layer serves two drafts.
    spec, index = spec_of("tied"), index_of_model("tied")
    manifest = lay_out("c", spec, index, Degrees(pp=3))
    uses = [
        (file.rank, tensor.file, tensor.start, tensor.stop)
        for file in manifest.files
        for tensor in file.tensors
        if tensor.name == "model.embed_tokens.weight"
    ]
    assert [rank for rank, *_ in uses] == [0, 2] and uses[0][1:] == uses[1][1:]
    drafted = replace(spec_of("mla"), predict_layers=2)
    held = lay_out("c", drafted, index_of_model("mla"), Degrees(pp=2))
    draft = [tensor.name for tensor in held.files[1].tensors if tensor.name.startswith("model.layers.4.")]
    assert draft and not any(tensor.name.startswith("model.layers.4.") for tensor in held.files[0].tensors)


def test_b15_experts_and_their_copies_fill_slots() -> None:
    assert set(slot_counts(256, 32, 8)) == {36}
    assert slots_of(256, 32, 8)[7] == ((252, 256), (0, 32))
    assert copies_of(256, 32, 8) == (0,) * 7 + (32,)
    # As many slots as ranks need, where experts alone do not divide (288 slots on 144 ranks).
    assert set(slot_counts(256, 32, 144)) == {2}
    everyone = {expert for ranges in slots_of(256, 32, 144) for first, last in ranges for expert in range(first, last)}
    assert everyone == set(range(256))


def test_b15_copies_are_in_the_files_and_in_the_plan() -> None:
    spec, index, degrees = spec_of("moe"), index_of_model("moe"), Degrees(ep=2, dp=2)
    plain, copied = lay_out("c", spec, index, degrees), lay_out("c", spec, index, degrees, 2)
    name = "model.layers.0.block_sparse_moe.experts.{}.w1.weight"
    held = [{expert for expert in range(4) if any(tensor.name == name.format(expert) for tensor in file.tensors)}
            for file in copied.files]  # fmt: skip
    assert held == [{0, 1, 2}, {3, 0, 1}]
    table = weight_table(spec, index)
    assert table is not None
    (stage,) = table.stages(degrees, 2)
    assert stage.redundant_bytes == (
        0,
        sum(copied.files[rank].weight_bytes - plain.files[rank].weight_bytes for rank in (0, 1)),
    )
    assert rank_weight_bytes(table, degrees, 2) == tuple(map(copied.rank_weight_bytes, range(2)))


def test_b16_experts_of_a_narrower_width() -> None:
    config = {
        "model_type": "kimi_linear", "hidden_size": 7168, "num_hidden_layers": 93, "num_attention_heads": 96,
        "num_key_value_heads": 96, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
        "v_head_dim": 128, "intermediate_size": 33792, "moe_intermediate_size": 3072, "routed_expert_hidden_size": 3584,
        "num_experts": 896, "num_experts_per_token": 16, "num_shared_experts": 2, "first_k_dense_replace": 1,
        "vocab_size": 163840, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
        "linear_attn_config": {"num_heads": 96, "head_dim": 128, "short_conv_kernel_size": 4,
                               "full_attn_layers": [93], "kda_layers": list(range(1, 93))},
    }  # fmt: skip
    table = weight_table(spec_for(config), None)
    assert table is not None
    (stage,) = table.stages(Degrees())
    assert stage.experts_bytes == (2 * 2722740830208,)
    (spread,) = table.stages(Degrees(tp=8, ep=64, dp=8))
    assert spread.experts_bytes == (2 * 2722740830208 // 64,) * 64


AWQ = {**LLAMA, "num_attention_heads": 8, "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}
GPTQ = {**AWQ, "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False}}
COMPRESSED = {**AWQ, "quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"group_0": {
    "targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 32, "strategy": "group",
                                       "symmetric": False}}}, "format": "pack-quantized"}}  # fmt: skip
NVFP4 = {**AWQ, "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}}
UP, DOWN = "model.layers.0.mlp.up_proj.", "model.layers.0.mlp.down_proj."


@pytest.mark.parametrize(
    ("config", "name", "dtype", "shape", "dim", "local"),
    [
        # AutoAWQ and AutoGPTQ store [input, output]; eight weights lie in one word along the output or the input.
        (AWQ, UP + "qweight", "I32", (512, 128), 1, (512, 64)),
        (AWQ, UP + "qzeros", "I32", (4, 128), 1, (4, 64)),
        (AWQ, UP + "scales", "F16", (4, 1024), 1, (4, 512)),
        (AWQ, DOWN + "qweight", "I32", (1024, 64), 0, (512, 64)),
        (AWQ, DOWN + "scales", "F16", (8, 512), 0, (4, 512)),
        (GPTQ, UP + "qweight", "I32", (64, 1024), 1, (64, 512)),
        (GPTQ, UP + "qzeros", "I32", (4, 128), 1, (4, 64)),
        (GPTQ, UP + "g_idx", "I32", (512,), None, (512,)),
        (GPTQ, DOWN + "qweight", "I32", (128, 512), 0, (64, 512)),
        (GPTQ, DOWN + "g_idx", "I32", (1024,), 0, (512,)),
        (COMPRESSED, UP + "weight_packed", "I32", (1024, 64), 0, (512, 64)),
        (COMPRESSED, UP + "weight_zero_point", "I32", (128, 16), 0, (64, 16)),
        (COMPRESSED, DOWN + "weight_packed", "I32", (512, 128), 1, (512, 64)),
        (COMPRESSED, DOWN + "weight_scale", "BF16", (512, 32), 1, (512, 16)),
        (COMPRESSED, DOWN + "weight_shape", "I64", (2,), None, (2,)),
        (NVFP4, DOWN + "weight", "U8", (512, 512), 1, (512, 256)),
        (NVFP4, DOWN + "weight_scale", "F8_E4M3", (512, 64), 1, (512, 32)),
        (NVFP4, DOWN + "weight_scale_2", "F32", (), None, ()),
        (NVFP4, DOWN + "input_scale", "F32", (), None, ()),
    ],
)
def test_packed_weights_and_their_scales_are_cut_alike(
    config: dict[str, Any], name: str, dtype: str, shape: tuple[int, ...], dim: int | None, local: tuple[int, ...]
) -> None:
    cut = part(config, name, dtype, shape, Degrees(tp=2), 1)
    assert (cut.dim, cut.shape) == (dim, local)


def test_packed_weights_that_cannot_be_cut_say_why() -> None:
    with pytest.raises(UncuttableError, match=r"64 a rank is no multiple of the .*128; tp 8 is the largest"):
        part({**AWQ, "num_attention_heads": 16, "num_key_value_heads": 16}, DOWN + "scales", "F16", (8, 512), Degrees(tp=16))
    ordered = {**GPTQ, "quantization_config": {**GPTQ["quantization_config"], "desc_act": True}}
    with pytest.raises(UncuttableError, match="act order mixes the groups of all inputs"):
        part(ordered, DOWN + "scales", "F16", (8, 512), Degrees(tp=2))
    assert part(ordered, UP + "scales", "F16", (4, 1024), Degrees(tp=2)).shape == (4, 512)
    with pytest.raises(UncuttableError, match="1000 along dimension 0; the structure says 1024"):
        part(LLAMA, UP + "weight", "BF16", (1000, 512), Degrees(tp=2))


@pytest.mark.parametrize(
    ("shape", "dim", "pieces"), [((4, 64, 48), 2, ((12, 24), (36, 48))), ((4, 48, 64), 1, ((12, 24), (36, 48)))]
)
def test_stacked_experts_of_either_orientation(shape: tuple[int, ...], dim: int, pieces: Any) -> None:
    config = {
        "model_type": "llama4_text", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 24, "intermediate_size_mlp": 48, "num_local_experts": 4,
        "num_experts_per_tok": 1, "interleave_moe_layer_step": 1, "vocab_size": 64, "torch_dtype": "bfloat16",
        "tie_word_embeddings": False,
    }  # fmt: skip
    name = "language_model.model.layers.0.feed_forward.experts.gate_up_proj"
    cut = part(config, name, "BF16", shape, Degrees(tp=2), 1)
    assert (cut.dim, cut.pieces) == (dim, pieces)
    with pytest.raises(UncuttableError, match="which dimension is the output is unknown"):
        part(config | {"hidden_size": 48}, name, "BF16", (4, 48, 48), Degrees(tp=2))


def test_state_space_projections_are_cut_part_by_part() -> None:
    # Gate 32, x 32, B and C of four groups 32 each, dt 8: for the last of four ranks.
    from architectures import NEMOTRON

    cut = part(NEMOTRON, "backbone.layers.0.mixer.in_proj.weight", "BF16", (136, 32), Degrees(tp=4), 3)
    assert cut.pieces == ((24, 32), (56, 64), (88, 96), (120, 128), (134, 136))
    one = {**NEMOTRON, "n_groups": 1}
    cut = part(one, "backbone.layers.0.mixer.conv1d.weight", "BF16", (48, 1, 4), Degrees(tp=4), 3)
    assert cut.pieces == ((24, 48),) or cut.pieces == ((24, 32), (32, 48))
    refused = violations(spec_for(NEMOTRON), Degrees(tp=8))
    assert [no.reason for no in refused] == ["4 groups do not divide by tp 8"]


def test_context_parallel_ranks_hold_what_their_tensor_rank_holds() -> None:
    degrees = Degrees(tp=2, dp=2, cp=2, ep=4)
    spec, index = spec_of("moe"), index_of_model("moe")
    manifest = lay_out("c", spec, index, degrees)
    order = [(at.dp, at.cp, at.tp, at.ep) for at in map(coordinates_of, range(8), [degrees] * 8)]
    assert order == [
        (0, 0, 0, 0),
        (0, 0, 1, 1),
        (0, 1, 0, 0),
        (0, 1, 1, 1),
        (1, 0, 0, 2),
        (1, 0, 1, 3),
        (1, 1, 0, 2),
        (1, 1, 1, 3),
    ]
    names = [{tensor.name for tensor in file.tensors} for file in manifest.files]
    assert names[0] == names[2] and names[5] == names[7] and names[0] != names[4]


def test_expert_slices_across_attention_replicas() -> None:
    # Four slices of each expert over two replicas of attention of two ranks each.
    spec, degrees = spec_of("moe"), Degrees(tp=2, dp=2, etp=4)
    assert degrees.attention_dp == 2 and violations(spec, degrees) == ()
    name = "model.layers.0.block_sparse_moe.experts.1.w2.weight"
    assert [partition_of(name, spec, degrees, rank).part for rank in range(4)] == [0, 1, 2, 3]
    refused = violations(spec, Degrees(tp=2, dp=2, ep=2, etp=4))
    assert [no.family for no in refused] == ["expert group"] and "ep × etp = 8" in refused[0].reason


def test_tensors_of_no_known_shape_are_refused_with_their_numbers() -> None:
    spec = spec_for(LLAMA)
    index = headers(("model.layers.0.self_attn.q_proj.weight", "BF16", (448, 512)), ("model.layers.0.x.weight", "BF16", (7,)))
    manifest = lay_out("c", spec, CheckpointIndex(index.tensors), Degrees(tp=2))
    assert {tensor.name: tensor.shape for tensor in manifest.files[0].tensors} == {
        "model.layers.0.self_attn.q_proj.weight": (224, 512), "model.layers.0.x.weight": (7,),
    }  # fmt: skip
