"""What lies outside of the language model's layers: draft layers with the last stage, towers with the first."""

import pytest

from architectures import index_of_model, spec_of
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import ShardFile, ShardManifest
from dayzero.stages.layout.laying import coordinates_of, lay_out
from dayzero.stages.layout.names import Part
from dayzero.stages.layout.partition import placed
from dayzero.stages.planning.index import predicted_index
from golden_models import spec_of as golden_spec


def stages_by_part(manifest: ShardManifest, spec, part: Part) -> dict[str, set[int]]:
    """The stages that hold each tensor of a part of the model."""
    found: dict[str, set[int]] = {}
    for file in manifest.files:
        for tensor in file.tensors:
            if placed(tensor.name, spec).part is part:
                found.setdefault(tensor.name, set()).add(coordinates_of(file.rank, manifest.degrees).pp)
    return found


def experts_in(file: ShardFile, layer: str) -> set[str]:
    """The numbers of a layer's experts that a rank's file holds."""
    prefix = f"{layer}mlp.experts."
    return {tensor.name.removeprefix(prefix).split(".")[0] for tensor in file.tensors if tensor.name.startswith(prefix)}


@pytest.mark.parametrize("degrees", [Degrees(pp=2), Degrees(tp=2, pp=4), Degrees(ep=2, dp=2, pp=2)], ids=str)
def test_draft_layers_lie_on_the_last_stage(degrees: Degrees) -> None:
    spec, index = spec_of("mla"), index_of_model("mla")
    manifest = lay_out("c", spec, index, degrees)
    drafts = stages_by_part(manifest, spec, Part.PREDICTION)
    assert drafts and set(map(frozenset, drafts.values())) == {frozenset({degrees.pp - 1})}
    assert set(drafts) == {
        header.name for header in index.tensors if header.name.startswith(f"model.layers.{len(spec.layers)}.")
    }
    # Their own copies of embeddings and head go with them, and are cut as the model's are.
    copies = [name for name in drafts if name.endswith(("embed_tokens.weight", "shared_head.head.weight"))]
    assert len(copies) == 2
    for file in manifest.files[-degrees.tp :]:
        shapes = {tensor.name: tensor.shape for tensor in file.tensors}
        assert {shapes[name] for name in copies} == {shapes["lm_head.weight"]}


def test_draft_experts_are_dealt_out_like_those_of_layers() -> None:
    spec, index = spec_of("mla"), index_of_model("mla")
    degrees = Degrees(ep=2, dp=2)
    manifest = lay_out("c", spec, index, degrees)
    layers = f"model.layers.{len(spec.layers)}.", "model.layers.1."
    held, like = ([experts_in(file, layer) for file in manifest.files] for layer in layers)
    assert held == like and not held[0] & held[1] and all(held)


def test_the_draft_layer_of_a_published_model_follows_its_last_stage() -> None:
    spec = golden_spec("deepseek-ai/DeepSeek-V3")
    index = predicted_index(spec)
    assert index is not None
    degrees = Degrees(tp=8, pp=16)
    manifest = lay_out("c", spec, index, degrees, ranks=(0, degrees.world - 1))
    first, last = ({tensor.name for tensor in file.tensors} for file in manifest.files)
    assert not any(name.startswith("model.layers.61.") for name in first)
    drafts = {header.name for header in index.tensors if header.name.startswith("model.layers.61.")}
    assert drafts and drafts <= last


@pytest.mark.parametrize("degrees", [Degrees(pp=3), Degrees(tp=2, pp=3), Degrees(tp=2)], ids=str)
def test_towers_lie_whole_on_every_rank_of_the_first_stage(degrees: Degrees) -> None:
    spec, index = spec_of("multimodal"), index_of_model("multimodal")
    manifest = lay_out("c", spec, index, degrees)
    towers = stages_by_part(manifest, spec, Part.TOWER)
    assert towers and set(map(frozenset, towers.values())) == {frozenset({0})}
    shapes = {header.name: header.shape for header in index.tensors}
    for file in manifest.files[: degrees.tp]:
        held = {tensor.name: tensor.shape for tensor in file.tensors}
        assert {name: held[name] for name in towers} == {name: shapes[name] for name in towers}
