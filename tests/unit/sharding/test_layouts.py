"""Layouts: every byte has a rank, planned bytes are the files' bytes, refusals carry their figures."""

import json
from dataclasses import replace
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from architectures import MODELS, cells, index_of_model, legal, spec_of
from checkpoints import DEEPSEEK, SMOLLM2, index_for, spec_for
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import ShardManifest, ShardTensor
from dayzero.domain.tensors import CheckpointIndex
from dayzero.errors import BadInputError
from dayzero.stages.headers.reading import header_length, parse_header
from dayzero.stages.layout.constraints import violations
from dayzero.stages.layout.laying import (
    PartitionKind,
    UncuttableError,
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
from dayzero.stages.layout.shares import rank_weight_bytes, weight_table

ARCHITECTURES = st.sampled_from(sorted(MODELS))


@st.composite
def allowed(draw: st.DrawFn) -> tuple[str, Degrees, int]:
    """An architecture, degrees that its structure allows, and redundant experts."""
    name = draw(ARCHITECTURES)
    degrees, redundant = draw(st.sampled_from(legal(name)))
    return name, degrees, redundant


def manifest_of(name: str, degrees: Degrees, redundant: int = 0) -> ShardManifest | None:
    """The layout, or None where a tensor cannot be cut; the table of weights must then say the same."""
    spec, index = spec_of(name), index_of_model(name)
    table = weight_table(spec, index)
    assert table is not None
    try:
        manifest = lay_out("c", spec, index, degrees, redundant)
    except UncuttableError as error:
        with pytest.raises(UncuttableError) as same:
            table.stages(degrees, redundant)
        assert same.value.family == error.family and error.numbers
        return None
    assert rank_weight_bytes(table, degrees, redundant) == tuple(map(manifest.rank_weight_bytes, range(degrees.world)))
    return manifest


@settings(max_examples=120, deadline=None)
@given(allowed())
def test_every_byte_has_a_rank_and_the_table_counts_it(case: tuple[str, Degrees, int]) -> None:
    name, degrees, redundant = case
    manifest = manifest_of(name, degrees, redundant)
    if manifest is None:
        return
    headers = {header.name: header for header in index_of_model(name).tensors}
    held: dict[tuple[str, int], set[tuple[int, int]]] = {}
    for file in manifest.files:
        at = coordinates_of(file.rank, degrees)
        assert len({tensor.name for tensor in file.tensors}) == len(file.tensors)
        for tensor in file.tensors:
            held.setdefault((tensor.name, at.pp), set()).update(cells(tensor, headers[tensor.name]))
    for header in headers.values():
        for stage in partition_of(header.name, spec_of(name), degrees).stages:
            found = held.pop((header.name, stage))
            rows = 1 if (-1 in {row for row, _ in found}) else header.shape[0] if header.shape else 1
            if (-1 in {at for _, at in found}) or not header.shape:
                assert len(found) == rows
            else:
                assert len(found) % rows == 0 and len(found) // rows in header.shape
    assert held == {}


@settings(max_examples=120, deadline=None)
@given(allowed())
def test_ranks_of_one_place_hold_the_same(case: tuple[str, Degrees, int]) -> None:
    name, degrees, redundant = case
    manifest = manifest_of(name, degrees, redundant)
    if manifest is None:
        return
    by_place: dict[tuple[int, int, int, int], set[tuple[ShardTensor, ...]]] = {}
    for file in manifest.files:
        at = coordinates_of(file.rank, degrees)
        unplaced = tuple(replace(tensor, begin=0, end=0) for tensor in file.tensors)
        by_place.setdefault((at.pp, at.tp, at.ep, at.etp), set()).add(unplaced)
    assert {len(contents) for contents in by_place.values()} == {1}


@settings(max_examples=60, deadline=None)
@given(allowed())
def test_table_without_headers_is_the_one_with_them(case: tuple[str, Degrees, int]) -> None:
    name, degrees, redundant = case
    predicted, exact = weight_table(spec_of(name), None), weight_table(spec_of(name), index_of_model(name))
    assert predicted is not None and exact is not None
    try:
        expected = exact.stages(degrees, redundant)
    except UncuttableError:
        with pytest.raises(UncuttableError):
            predicted.stages(degrees, redundant)
        return
    assert predicted.stages(degrees, redundant) == expected
    # The functions that walk every group say the same.
    if not redundant:
        shares = weight_shares(group_tensors(spec_of(name), index_of_model(name)), spec_of(name), degrees)
        assert weight_bytes_by_rank(shares, spec_of(name), degrees) == rank_weight_bytes(exact, degrees)


@settings(max_examples=40, deadline=None)
@given(allowed())
def test_rank_files_are_safetensors(case: tuple[str, Degrees, int]) -> None:
    name, degrees, redundant = case
    manifest = manifest_of(name, degrees, redundant)
    for file in manifest.files if manifest else ():
        assert manifest is not None
        head = shard_header(manifest, file)
        named = json.loads(head[8:])["__metadata__"]
        assert named == {"content_id": "c", "degrees": str(degrees), "format": "pt", "rank": str(file.rank)}
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
