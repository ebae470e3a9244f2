"""Layouts: every byte has a rank, slices rebuild the tensor, planned bytes are the files' bytes."""

import itertools
from dataclasses import replace
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import DEEPSEEK, GPT_OSS, MIXTRAL, SMOLLM2, index_for, spec_for
from dayzero.domain.planning import Degrees
from dayzero.domain.tensors import CheckpointIndex
from dayzero.errors import BadInputError
from dayzero.stages.headers import header_length, parse_header
from dayzero.stages.layout import (
    PartitionKind,
    coordinates_of,
    group_tensors,
    lay_out,
    layout_findings,
    partition_of,
    shard_header,
    stage_layers,
    weight_bytes_by_rank,
    weight_shares,
)
from dayzero.stages.layout_constraints import violations

MODELS = st.sampled_from([SMOLLM2, DEEPSEEK, MIXTRAL, GPT_OSS])
DEGREES = st.builds(
    Degrees,
    st.sampled_from([1, 2, 3, 4]),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 2]),
)


@settings(max_examples=80, deadline=None)
@given(MODELS, DEGREES)
def test_every_byte_has_a_rank_once_per_replica(config: dict, degrees: Degrees) -> None:
    spec, index = spec_for(config), index_for(config)
    if violations(spec, degrees):
        with pytest.raises(BadInputError):
            lay_out("c", spec, index, degrees)
        return
    manifest = lay_out("c", spec, index, degrees)
    assert [file.rank for file in manifest.files] == list(range(degrees.world))
    slices: dict[tuple[str, int], set[tuple[int, int]]] = {}
    for file in manifest.files:
        at = coordinates_of(file.rank, degrees)
        for tensor in file.tensors:
            slices.setdefault((tensor.name, at.pp), set()).add((tensor.start, tensor.stop))
    for header in index.tensors:
        stages = partition_of(header.name, spec, degrees).stages
        for stage in stages:
            ranges = sorted(slices.pop((header.name, stage)))
            assert ranges[0][0] == 0
            assert all(before[1] == after[0] for before, after in itertools.pairwise(ranges))
            assert header.shape == () or ranges[-1][1] in header.shape
    assert slices == {}


@settings(max_examples=80, deadline=None)
@given(MODELS, DEGREES)
def test_planned_bytes_are_the_files_bytes(config: dict, degrees: Degrees) -> None:
    spec, index = spec_for(config), index_for(config)
    if violations(spec, degrees):
        return
    shares = weight_shares(group_tensors(spec, index), spec, degrees)
    planned = weight_bytes_by_rank(shares, spec, degrees)
    manifest = lay_out("c", spec, index, degrees)
    assert planned == tuple(manifest.rank_weight_bytes(rank) for rank in range(degrees.world))


@settings(max_examples=30, deadline=None)
@given(MODELS, DEGREES)
def test_rank_files_are_safetensors(config: dict, degrees: Degrees) -> None:
    spec, index = spec_for(config), index_for(config)
    if violations(spec, degrees):
        return
    for file in lay_out("c", spec, index, degrees).files:
        head = shard_header(file.tensors, file.rank, degrees)
        length = header_length(head[:8], file.path, file.size_bytes)
        parsed = {item.name: item for item in parse_header(file.path, file.size_bytes, head[8 : 8 + length])}
        assert len(parsed) == len(file.tensors)
        for tensor in file.tensors:
            assert (parsed[tensor.name].begin, parsed[tensor.name].end) == (tensor.begin, tensor.end)
            assert parsed[tensor.name].shape == tensor.shape


def test_nine_heads_do_not_divide_by_two() -> None:
    spec = spec_for(SMOLLM2)
    reasons = {rejection.family: rejection.reason for rejection in violations(spec, Degrees(tp=2))}
    assert reasons == {
        "heads": "9 heads do not divide by tp 2",
        "kv heads": "3 key-value heads do not divide by tp 2",
    }
    assert violations(spec, Degrees(tp=3)) == ()


def test_mla_is_cut_by_heads_and_its_latents_are_whole() -> None:
    spec, degrees = spec_for(DEEPSEEK), Degrees(tp=2)
    kinds = {
        module: partition_of(f"model.layers.1.{module}.weight", spec, degrees).kind
        for module in ("self_attn.q_a_proj", "self_attn.q_b_proj", "self_attn.kv_a_proj_with_mqa", "self_attn.kv_b_proj",
                       "self_attn.o_proj", "self_attn.kv_a_layernorm", "mlp.gate", "mlp.experts.3.gate_proj",
                       "mlp.experts.3.down_proj", "mlp.shared_experts.up_proj")
    }  # fmt: skip
    assert list(kinds.values()) == [
        PartitionKind.REPLICATED, PartitionKind.COLUMN, PartitionKind.REPLICATED, PartitionKind.COLUMN, PartitionKind.ROW,
        PartitionKind.REPLICATED, PartitionKind.REPLICATED, PartitionKind.COLUMN, PartitionKind.ROW, PartitionKind.COLUMN,
    ]  # fmt: skip


def test_experts_are_whole_on_their_rank() -> None:
    spec, degrees = spec_for(DEEPSEEK), Degrees(tp=2, ep=2)
    holders = [
        [rank for rank in range(2)
         if partition_of(f"model.layers.1.mlp.experts.{expert}.up_proj.weight", spec, degrees, rank).kind
         is PartitionKind.EXPERT]
        for expert in range(8)
    ]  # fmt: skip
    assert holders == [[0]] * 4 + [[1]] * 4


def test_stages_own_their_layers_and_tied_embeddings_lie_on_both_ends() -> None:
    spec, degrees = spec_for(SMOLLM2), Degrees(pp=3)
    assert stage_layers(5, 3) == ((0, 2), (2, 4), (4, 5))
    assert partition_of("model.embed_tokens.weight", spec, degrees).stages == (0, 2)
    assert partition_of("model.norm.weight", spec, degrees).stages == (2,)
    assert partition_of("model.layers.0.mlp.up_proj.weight", spec, degrees, 1).kind is PartitionKind.ABSENT


def test_unknown_family_is_whole_on_every_rank_and_says_so() -> None:
    spec = spec_for({**SMOLLM2, "model_type": "new"})
    index = index_for(SMOLLM2)
    assert [finding.code for finding in layout_findings(spec)] == ["layout.replicated"]
    manifest = lay_out("c", spec, index, Degrees(dp=2))
    assert manifest.rank_weight_bytes(0) == manifest.rank_weight_bytes(1) == index.weight_bytes
    with pytest.raises(BadInputError, match="no sharding rules are known for new"):
        lay_out("c", spec, index, Degrees(tp=3))


def test_fp8_blocks_are_not_split() -> None:
    config = {**DEEPSEEK, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
    spec, index = spec_for(config), index_for(config)
    fp8 = CheckpointIndex(
        tuple(
            replace(header, dtype="F8_E4M3", end=header.begin + prod(header.shape)) if len(header.shape) == 2 else header
            for header in index.tensors
        )
    )
    with pytest.raises(BadInputError, match="no multiple of the quantization block 128"):
        lay_out("c", spec, fp8, Degrees(tp=2))
