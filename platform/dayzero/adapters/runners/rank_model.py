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

EXPERT = re.compile(r"^(.*\.experts)\.(\d+)\.(\w+)\.weight$")
PARTS = {"gate_up_proj": (("gate_proj", "w1"), ("up_proj", "w3")), "down_proj": (("down_proj", "w2"),)}
"""A fused expert parameter, by the names that its parts have in checkpoints."""


class Passed(torch.nn.Module):  # type: ignore[misc]
    """Stands where another pipeline stage has a layer: hands its input on."""

    def forward(self, hidden_states: torch.Tensor, *_args: Any, **_kwargs: Any) -> torch.Tensor:
        """The hidden states as they are."""
        return hidden_states


@dataclass(slots=True)
class RankModel:
    """The module with the rank's weights, which of its modules give partial sums, and how much it holds."""

    model: Any
    first_stage: bool
    last_stage: bool
    summed: list[str] = field(default_factory=list)
    expert_parallel: dict[str, tuple[int, int]] = field(default_factory=dict)
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
    _drop_other_stages(ranked, held)
    _fill_parameters(ranked, held, dtype)
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


def _fill_parameters(ranked: RankModel, held: dict[str, torch.Tensor], dtype: torch.dtype) -> None:
    head = ranked.model.get_output_embeddings()
    embeddings = ranked.model.get_input_embeddings()
    for path, module in list(ranked.model.named_modules()):
        for leaf, parameter in list(module._parameters.items()):
            if parameter is None:
                continue
            name = f"{path}.{leaf}" if path else leaf
            local = held.get(name)
            if local is None and path.endswith(".experts"):
                local = _fused(ranked, held, path, leaf)
            if local is None and module is head and _tied(ranked.model):
                local = next((held[key] for key in held if key.endswith("embed_tokens.weight")), None)
            if local is None:
                raise BadInputError(f"the rank's shards do not hold {name}.", remedy="Shard the model anew.")
            module._parameters[leaf] = torch.nn.Parameter(local.to(dtype), requires_grad=False)
            if module is not head and module is not embeddings:
                _note_cut(ranked, path, leaf, tuple(parameter.shape), tuple(local.shape))


def _note_cut(ranked: RankModel, path: str, leaf: str, whole: tuple[int, ...], local: tuple[int, ...]) -> None:
    """Whose input dimension is cut gives partial sums; the last dimension is the input of linear and expert weights."""
    if len(whole) != len(local):
        raise BadInputError(f"{path}.{leaf} has shape {local}, the model wants {whole}.", remedy="Shard the model anew.")
    partial = len(whole) > 1 and local[-1] != whole[-1]
    if partial and path not in ranked.summed:
        ranked.summed.append(path)


def _fused(ranked: RankModel, held: dict[str, torch.Tensor], path: str, leaf: str) -> torch.Tensor | None:
    """Experts of the rank, stacked as the modelling library keeps them: [experts, out, in], gate above up."""
    found: dict[int, dict[str, torch.Tensor]] = {}
    for name, tensor in held.items():
        matched = EXPERT.match(name)
        if matched and matched[1] == path:
            found.setdefault(int(matched[2]), {})[matched[3]] = tensor
    if not found or leaf not in PARTS:
        return None
    first, last = min(found), max(found)
    if len(found) != last - first + 1:
        raise BadInputError(f"{path} lacks an expert between {first} and {last}.", remedy="Shard the model anew.")
    stacked = []
    for expert in range(first, last + 1):
        parts = [next((found[expert][name] for name in names if name in found[expert]), None) for names in PARTS[leaf]]
        if any(part is None for part in parts):
            return None
        stacked.append(torch.cat([part for part in parts if part is not None]))
    module = ranked.model.get_submodule(path)
    if len(found) != module.num_experts or path in ranked.expert_parallel:
        ranked.expert_parallel[path] = (first, len(found))
    return torch.stack(stacked)


def _fill_buffers(model: Any, held: dict[str, torch.Tensor]) -> None:
    for path, module in model.named_modules():
        computed = False
        for leaf, buffer in list(module._buffers.items()):
            if buffer is None or not buffer.is_meta:
                continue
            stored = held.get(f"{path}.{leaf}")
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
    for path, (_first, count) in ranked.expert_parallel.items():
        ranked.model.get_submodule(path).num_experts = count
