"""A rank's part of a model: built from the configuration without memory, filled from the rank's own shard files alone."""

import contextlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM

from dayzero.adapters.runners import loading
from dayzero.domain.shards import ShardManifest
from dayzero.errors import BadInputError
from dayzero.stages.layout.partition import coordinates_of, copies_of, slots_of

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
    summed: list[str] = field(default_factory=list)
    expert_parallel: dict[str, HeldExperts] = field(default_factory=dict)
    normed: dict[str, int] = field(default_factory=dict)
    vocabulary: tuple[str, ...] = ()
    weight_bytes: int = 0
    tensors: int = 0


def rank_tensors(shards: Path, manifest: ShardManifest, rank: int) -> dict[str, torch.Tensor]:
    """The tensors in the rank's files, which must be those that the manifest names, in its shapes."""
    held: dict[str, torch.Tensor] = {}
    for file in manifest.files:
        if file.rank != rank:
            continue
        path = shards / file.path
        if path.resolve().parent != shards.resolve():
            raise BadInputError(f"shard file {file.path} lies outside its folder.", remedy="Shard the model anew.")
        with safe_open(path, framework="pt") as opened:
            held |= {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - not a mapping
        for tensor in file.tensors:
            if tensor.name not in held or tuple(held[tensor.name].shape) != tensor.shape:
                raise BadInputError(f"{file.path} does not hold {tensor.name} as its manifest says.", remedy="Shard it anew.")
    return held


def build_rank(folder: Path, shards: Path, manifest: ShardManifest, rank: int, dtype: torch.dtype) -> RankModel:
    """The rank's model in the dtype. BadInputError: the shards lack a tensor that the rank's layers need."""
    config = loading.read_config(folder)
    held = rank_tensors(shards, manifest, rank)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="eager", trust_remote_code=False)
    with contextlib.suppress(ValueError, AttributeError):
        # Eager experts pass over choices that are not theirs; models without experts refuse the setting.
        model.set_experts_implementation("eager")
    per_stage = manifest.degrees.tp * manifest.degrees.dp
    stage = rank // per_stage
    ranked = RankModel(model.eval(), stage == 0, stage == manifest.degrees.pp - 1)
    ranked.weight_bytes = sum(tensor.numel() * tensor.element_size() for tensor in held.values())
    ranked.tensors = len(held)
    _require_unpacked(held)
    _drop_other_stages(ranked, held)
    _fill_parameters(ranked, held, dtype, _RankExperts(manifest, rank))
    _fill_buffers(model, held)
    _fit_heads(ranked)
    return ranked


def _drop_other_stages(ranked: RankModel, held: dict[str, torch.Tensor]) -> None:
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


def _filled(local: torch.Tensor, dtype: torch.dtype) -> torch.nn.Parameter:
    """A parameter with its values, and the mark that the library's own initialisation passes over: it is asked for buffers, and
    would draw the weights of the same module (Gemma-3's embeddings) at random."""
    parameter = torch.nn.Parameter(local.to(dtype), requires_grad=False)
    parameter._is_hf_initialized = True
    return parameter


def _stored(held: dict[str, torch.Tensor], name: str) -> torch.Tensor | None:
    """The tensor of that name, or of the one that its publishers give it."""
    return next((held[each] for each in _names(name) if each in held), None)


def _names(name: str) -> tuple[str, ...]:
    """A module's name in the library, and in checkpoints that call a mixture by another (Mixtral, MiniMax)."""
    return (name, name.replace(".mlp.", ".block_sparse_moe."))


def _require_unpacked(held: dict[str, torch.Tensor]) -> None:
    packed = next((name for name, tensor in held.items() if tensor.element_size() == 1 or "scale" in name), None)
    if packed is not None:
        raise BadInputError(
            f"{packed} is quantized ({held[packed].dtype}); ranks compute with unquantized weights only.",
            remedy="Run the parallel check on an unquantized checkpoint.",
        )


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


def _fill_parameters(ranked: RankModel, held: dict[str, torch.Tensor], dtype: torch.dtype, experts: _RankExperts) -> None:
    head = ranked.model.get_output_embeddings()
    embeddings = ranked.model.get_input_embeddings()
    for path, module in list(ranked.model.named_modules()):
        for leaf, parameter in list(module._parameters.items()):
            if parameter is None:
                continue
            name = f"{path}.{leaf}" if path else leaf
            local = _stored(held, name)
            if path.endswith(".experts"):
                whole = int(parameter.shape[0])
                if local is None:
                    local = _fused(held, path, leaf, experts.held(whole))
                if local is not None and experts.degrees.ep > 1:
                    ranked.expert_parallel[path] = experts.held(whole)
            if local is None and module is head and _tied(ranked.model):
                local = next((held[key] for key in held if key.endswith("embed_tokens.weight")), None)
            if local is None:
                raise BadInputError(f"the rank's shards do not hold {name}.", remedy="Shard the model anew.")
            module._parameters[leaf] = _filled(local, dtype)
            if module is head or module is embeddings:
                _note_rows(ranked, "head" if module is head else "embeddings", int(parameter.shape[0]), int(local.shape[0]))
            else:
                _note_cut(ranked, path, leaf, tuple(parameter.shape), tuple(local.shape))


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


def _fused(held: dict[str, torch.Tensor], path: str, leaf: str, experts: HeldExperts) -> torch.Tensor | None:
    """Experts of the rank, stacked as the modelling library keeps them: [experts, out, in], gate above up."""
    found: dict[int, dict[str, torch.Tensor]] = {}
    for name, tensor in held.items():
        matched = EXPERT.match(name)
        if matched and matched[1] in _names(path):
            found.setdefault(int(matched[2]), {})[matched[3]] = tensor
    if not found or leaf not in PARTS:
        return None
    missing = sorted(set(experts.numbers) - set(found))
    if missing:
        raise BadInputError(f"{path} lacks expert {missing[0]} of {experts.of}.", remedy="Shard the model anew.")
    stacked = []
    for expert in experts.numbers:
        parts = [next((found[expert][name] for name in names if name in found[expert]), None) for names in PARTS[leaf]]
        if any(part is None for part in parts):
            return None
        stacked.append(torch.cat([part for part in parts if part is not None]))
    return torch.stack(stacked)


def _fill_buffers(model: Any, held: dict[str, torch.Tensor]) -> None:
    for path, module in model.named_modules():
        computed = False
        for leaf, buffer in list(module._buffers.items()):
            if buffer is None or not buffer.is_meta:
                continue
            stored = _stored(held, f"{path}.{leaf}")
            module._buffers[leaf] = torch.empty(buffer.shape, dtype=buffer.dtype) if stored is None else stored
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
