"""A rank's part of a model: built from the configuration without memory, filled from the rank's own shard files alone."""

import contextlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.placing import HOST
from dayzero.adapters.runners.rank_loading import WeightLoader
from dayzero.adapters.runners.rank_tensors import Source, Stored, rank_tensors, source_of
from dayzero.domain.shards import ShardManifest
from dayzero.errors import BadInputError
from dayzero.stages.layout.partition import coordinates_of, copies_of, slots_of
from dayzero.stages.parameters.weights import BLOCK

EXPERT = re.compile(r"^(.*\.experts)\.(\d+)\.(\w+)\.weight$")
PARTS = {"gate_up_proj": (("gate_proj", "w1"), ("up_proj", "w3")), "down_proj": (("down_proj", "w2"),)}
"""A fused expert parameter, by the names that its parts have in checkpoints."""


class Passed(torch.nn.Module):  # type: ignore[misc]
    """Stands where another pipeline stage has a layer: hands its input on."""

    def forward(self, hidden_states: torch.Tensor, *_args: Any, **_kwargs: Any) -> torch.Tensor:
        """The hidden states as they are."""
        return hidden_states


@dataclass(frozen=True, slots=True)
class HeldExperts:
    """The experts that a rank's stacked tensors hold, in their order; `own` of them it computes, the rest are second copies."""

    numbers: tuple[int, ...]
    own: frozenset[int]
    of: int


@dataclass(slots=True)
class RankModel:
    """The module with the rank's weights, which of its modules give partial sums, and how much it holds.

    `normed` norms run over more than the rank's part (their whole width is kept), `vocabulary` names those of `embeddings`
    and `head` of which the rank has a share of the rows.
    """

    model: Any
    first_stage: bool
    last_stage: bool
    weights: WeightLoader
    summed: list[str] = field(default_factory=list)
    expert_parallel: dict[str, HeldExperts] = field(default_factory=dict)
    normed: dict[str, int] = field(default_factory=dict)
    vocabulary: tuple[str, ...] = ()
    weight_bytes: int = 0
    tensors: int = 0


def build_rank(
    folder: Path, shards: Path, manifest: ShardManifest, rank: int, dtype: torch.dtype, device: torch.device = HOST
) -> RankModel:
    """The rank's model in the dtype, with all of its structure and none of its weights: `ranked.weights` brings them in.

    BadInputError: the shards lack a tensor that the rank's layers need.
    """
    config = loading.read_config(folder)
    held = rank_tensors(shards, manifest, rank, _block(config))
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="eager", trust_remote_code=False)
    with contextlib.suppress(ValueError, AttributeError):
        # Eager experts pass over choices that are not theirs; models without experts refuse the setting.
        model.set_experts_implementation("eager")
    per_stage = manifest.degrees.tp * manifest.degrees.dp
    stage = rank // per_stage
    ranked = RankModel(model.eval(), stage == 0, stage == manifest.degrees.pp - 1, WeightLoader(dtype, device))
    ranked.weight_bytes = sum(file.weight_bytes for file in manifest.files if file.rank == rank)
    ranked.tensors = sum(len(file.tensors) for file in manifest.files if file.rank == rank)
    _drop_other_stages(ranked, held)
    _promise_parameters(ranked, held, _RankExperts(manifest, rank))
    _fill_buffers(model, held)
    _fit_heads(ranked)
    return ranked


def load_weights(ranked: RankModel, *, overlap: bool) -> None:
    """Bring the weights in: before this returns, or while layers compute, each waiting for its own."""
    for module in ranked.model.modules():
        for leaf, buffer in module._buffers.items():
            module._buffers[leaf] = None if buffer is None else buffer.to(ranked.weights.device)
    if overlap:
        ranked.weights.start(_waiting(ranked.model))
    else:
        ranked.weights.load()


def _block(config: Any) -> tuple[int, int]:
    """The blocks of an FP8 checkpoint; those of DeepSeek-V3 where the configuration states none."""
    stated = getattr(config, "quantization_config", None)
    sizes = (stated.get("weight_block_size") if isinstance(stated, dict) else None) or BLOCK
    return int(sizes[0]), int(sizes[-1])


def _waiting(model: Any) -> dict[int, list[Any]]:
    """Which modules wait for which group: whatever computes first for what lies outside of the layers, the head for itself."""
    _, layers = loading.decoder_layers(model)
    waiting: dict[int, list[Any]] = {number + 1: [layer] for number, layer in enumerate(layers)}
    waiting[0] = [model, model.base_model, model.get_input_embeddings()]
    head = model.get_output_embeddings()
    if head is not None:
        waiting[len(layers) + 1] = [head]
    return waiting


def _drop_other_stages(ranked: RankModel, held: dict[str, Stored]) -> None:
    model = ranked.model
    path, layers = loading.decoder_layers(model)
    for index in range(len(layers)):
        if not any(name.startswith(f"{path}.{index}.") for name in held):
            layers[index] = Passed()
    if not ranked.first_stage and not _tied(model):
        model.set_input_embeddings(Passed())
    if not ranked.last_stage:
        parent = model.get_submodule(path.rpartition(".")[0])
        parent.norm = Passed()
        model.set_output_embeddings(Passed())


def _tied(model: Any) -> bool:
    return bool(getattr(model.config.get_text_config(), "tie_word_embeddings", False))


def _stored(held: dict[str, Stored], name: str) -> Stored | None:
    """The tensor of that name, or of the one that its publishers give it."""
    return next((held[each] for each in _names(name) if each in held), None)


def _names(name: str) -> tuple[str, ...]:
    """A module's name in the library, and in checkpoints that call a mixture by another (Mixtral, MiniMax)."""
    return (name, name.replace(".mlp.", ".block_sparse_moe."))


class _RankExperts:
    """Which experts a rank has, by the layout's slots."""

    def __init__(self, manifest: ShardManifest, rank: int) -> None:
        self.degrees, self.redundant = manifest.degrees, manifest.redundant_experts
        self.owner = coordinates_of(rank, manifest.degrees).ep

    def held(self, count: int) -> HeldExperts:
        """Of so many experts of a layer."""
        ranges = slots_of(count, self.redundant, self.degrees.ep)[self.owner]
        numbers = tuple(expert for first, last in ranges for expert in range(first, last))
        copies = copies_of(count, self.redundant, self.degrees.ep)[self.owner]
        return HeldExperts(numbers, frozenset(numbers[: len(numbers) - copies]), count)


def _promise_parameters(ranked: RankModel, held: dict[str, Stored], experts: _RankExperts) -> None:
    head = ranked.model.get_output_embeddings()
    embeddings = ranked.model.get_input_embeddings()
    layers, count = loading.decoder_layers(ranked.model)[0], len(loading.decoder_layers(ranked.model)[1])
    for path, module in list(ranked.model.named_modules()):
        for leaf, parameter in list(module._parameters.items()):
            if parameter is None:
                continue
            name = f"{path}.{leaf}" if path else leaf
            source = _source(ranked, held, experts, path, leaf, int(parameter.shape[0]) if parameter.dim() else 0)
            if source is None and module is head and _tied(ranked.model):
                source = next((source_of(held[key]) for key in held if key.endswith("embed_tokens.weight")), None)
            if source is None:
                raise BadInputError(f"the rank's shards do not hold {name}.", remedy="Shard the model anew.")
            whole = tuple(parameter.shape)
            group = count + 1 if module is head else _group(path, layers)
            ranked.weights.promise(module, leaf, source, group)
            if module is head or module is embeddings:
                _note_rows(ranked, "head" if module is head else "embeddings", whole[0], source.shape[0])
            else:
                _note_cut(ranked, path, leaf, whole, source.shape)


def _group(path: str, layers: str) -> int:
    """0 outside of the layers, else one more than the layer's number: the order in which they compute."""
    if not path.startswith(f"{layers}."):
        return 0
    return int(path.removeprefix(f"{layers}.").split(".")[0]) + 1


def _source(
    ranked: RankModel, held: dict[str, Stored], experts: _RankExperts, path: str, leaf: str, whole: int
) -> Source | None:
    stored = _stored(held, f"{path}.{leaf}" if path else leaf)
    source = None if stored is None else source_of(stored)
    if path.endswith(".experts"):
        source = source or _fused(held, path, leaf, experts.held(whole))
        if source is not None and experts.degrees.ep > 1:
            ranked.expert_parallel[path] = experts.held(whole)
    return source


def _note_cut(ranked: RankModel, path: str, leaf: str, whole: tuple[int, ...], local: tuple[int, ...]) -> None:
    """Whose input dimension is cut gives partial sums; the last dimension is the input of linear and expert weights."""
    if len(whole) != len(local):
        raise BadInputError(f"{path}.{leaf} has shape {local}, the model wants {whole}.", remedy="Shard the model anew.")
    partial = len(whole) > 1 and local[-1] != whole[-1]
    if partial and path not in ranked.summed:
        ranked.summed.append(path)
    if len(whole) == 1 and local != whole and path.rsplit(".", 1)[-1].endswith("norm"):
        ranked.normed[path] = whole[0]


def _note_rows(ranked: RankModel, which: str, whole: int, local: int) -> None:
    if local != whole and which not in ranked.vocabulary:
        ranked.vocabulary = (*ranked.vocabulary, which)


def _fused(held: dict[str, Stored], path: str, leaf: str, experts: HeldExperts) -> Source | None:
    """Experts of the rank, stacked as the modelling library keeps them: [experts, out, in], gate above up."""
    found: dict[int, dict[str, Stored]] = {}
    for name, tensor in held.items():
        matched = EXPERT.match(name)
        if matched and matched[1] in _names(path):
            found.setdefault(int(matched[2]), {})[matched[3]] = tensor
    if not found or leaf not in PARTS:
        return None
    missing = sorted(set(experts.numbers) - set(found))
    if missing:
        raise BadInputError(f"{path} lacks expert {missing[0]} of {experts.of}.", remedy="Shard the model anew.")
    stacked: list[tuple[Stored, ...]] = []
    for expert in experts.numbers:
        parts = [next((found[expert][name] for name in names if name in found[expert]), None) for names in PARTS[leaf]]
        if any(part is None for part in parts):
            return None
        stacked.append(tuple(part for part in parts if part is not None))
    rows, columns = sum(part.shape[0] for part in stacked[0]), stacked[0][0].shape[1]

    def make(dtype: torch.dtype) -> torch.Tensor:
        return torch.stack([torch.cat([part.values(dtype) for part in parts]) for parts in stacked])

    return Source((len(stacked), rows, columns), tuple(part for parts in stacked for part in parts), make)


def _fill_buffers(model: Any, held: dict[str, Stored]) -> None:
    for path, module in model.named_modules():
        computed = False
        for leaf, buffer in list(module._buffers.items()):
            if buffer is None or not buffer.is_meta:
                continue
            stored = _stored(held, f"{path}.{leaf}")
            empty = torch.empty(buffer.shape, dtype=buffer.dtype)
            module._buffers[leaf] = empty if stored is None else stored.values(stored.mapped.dtype)
            computed = computed or stored is None
        if computed:
            # Buffers that no checkpoint holds (rotary tables) are what the library's own initialisation computes.
            model._init_weights(module)


def _fit_heads(ranked: RankModel) -> None:
    """Query heads a key head, where a rank holds a share of each."""
    for module in ranked.model.modules():
        if all(hasattr(module, name) for name in ("q_proj", "k_proj", "num_key_value_groups", "head_dim")):
            queries, keys = module.q_proj.weight.shape[0], module.k_proj.weight.shape[0]
            module.num_key_value_groups = queries // keys
    for path, experts in ranked.expert_parallel.items():
        ranked.model.get_submodule(path).num_experts = len(experts.numbers)
