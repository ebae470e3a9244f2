"""The kernel level of an inventory: what an operator library would be asked for, derived from the specification."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict

from dayzero.domain.architecture import FeedForward, Layer, Mixer, ModelSpec, Quantization, QuantizationGroup
from dayzero.domain.findings import Finding, Severity
from dayzero.domain.operators import KernelUse
from dayzero.stages.inventory.taxonomy import Taxonomy
from dayzero.stages.parameters.quantization_targets import ModuleNames

_Constraints = Mapping[str, int | float | str]
_Named = tuple[str, _Constraints]

_GATED = {"silu": "activation.silu_gate", "swish": "activation.silu_gate", "gelu": "activation.gelu_gate",
          "gelu_pytorch_tanh": "activation.gelu_gate", "gelu_new": "activation.gelu_gate",
          "swigluoai": "activation.swiglu_clamped"}  # fmt: skip
_PLAIN = {"gelu": "activation.gelu", "gelu_new": "activation.gelu", "gelu_fast": "activation.gelu",
          "gelu_pytorch_tanh": "activation.gelu", "relu": "activation.relu", "relu2": "activation.relu"}  # fmt: skip
_CLAMPED = frozenset({"gpt_oss", "minimax_m3"})
"""Families whose code clamps both halves of its SwiGLU whatever hidden_act says (their modelling code, transformers 5.24)."""

_SCHEMES = {"fp8_block": "gemm.fp8_block", "mxfp8": "gemm.fp8_block", "fp8_tensor": "gemm.fp8_tensor",
            "fp8_channel": "gemm.fp8_tensor", "mxfp4": "gemm.fp4_block", "nvfp4": "gemm.fp4_block",
            "int4_group": "gemm.int4_group", "int8": "gemm.int8"}  # fmt: skip
_NOT_FIGURES = ("kind", "bias", "rope_theta", "positions", "causal", "cached", "indexer", "recurrence", "output_bias")


def kernels_of(spec: ModelSpec, taxonomy: Taxonomy, findings: list[Finding]) -> tuple[KernelUse, ...]:
    """Every kernel with its figures and the layers that use it, sorted; a name that the taxonomy lacks becomes a finding."""
    counted: dict[tuple[str, tuple[tuple[str, int | float | str], ...]], int] = {}
    for layer in spec.layers:
        for name, constraints in _of_layer(layer, spec):
            _count(counted, name, constraints)
    for name, constraints in _of_model(spec):
        _count(counted, name, constraints)
    if not spec.layers:
        findings.append(Finding("inventory.no_layers", "kernels", "the specification has no layers: its kernels are unknown"))
    known: list[KernelUse] = []
    for (name, pairs), layers in sorted(counted.items(), key=lambda item: (item[0][0], repr(item[0][1]))):
        operator = taxonomy.get(name)
        if operator is None:
            message = f"{name} is no name of the operator taxonomy, so no library can be asked for it"
            findings.append(Finding("inventory.unnamed_kernel", name, message, Severity.WARNING, {"layers": layers}))
            continue
        known.append(KernelUse(name, layers, dict(pairs)))
    return tuple(known)


def _count(
    counted: dict[tuple[str, tuple[tuple[str, int | float | str], ...]], int], name: str, constraints: _Constraints
) -> None:
    key = (name, tuple(sorted(constraints.items())))
    counted[key] = counted.get(key, 0) + 1


def _of_layer(layer: Layer, spec: ModelSpec) -> Iterable[_Named]:
    for mixer in layer.mixers:
        yield from _of_mixer(mixer, spec)
    yield layer.norm, _figures({"hidden_size": spec.hidden_size})
    if layer.feed_forward is not None:
        yield from _of_feed_forward(layer.feed_forward, spec)
    yield _gemm(spec.quantization, ("self_attn", "linear_attn", "mamba", "mlp", "feed_forward"))
    if spec.residual == "hyper_connections":
        yield "residual.hyper_connections", _figures({"hidden_size": spec.hidden_size, "streams": spec.residual_streams})
    elif spec.residual == "attention":
        yield "residual.attention", _figures({"hidden_size": spec.hidden_size})


def _of_mixer(mixer: Mixer, spec: ModelSpec) -> Iterable[_Named]:
    """A mixer with its figures (those of its indexer and its recurrent state by prefixed names) and what goes with it."""
    inner = {"indexer": mixer.indexer, "state": mixer.recurrence}
    nested = {f"{name}_{key}": value for name, part in inner.items() if part for key, value in asdict(part).items()}
    own = {name: value for name, value in asdict(mixer).items() if name not in _NOT_FIGURES}
    yield mixer.kind, {**_figures(own), **_figures(nested)}
    if mixer.rope_theta is not None:
        yield _rope(mixer, spec)
    if mixer.indexer is not None:
        figures = asdict(mixer.indexer)
        yield "attention.sparse_indexer", _figures(figures)
    if mixer.recurrence is not None and mixer.recurrence.conv_kernel:
        sizes = {"kernel_size": mixer.recurrence.conv_kernel, "channels": mixer.recurrence.conv_channels}
        yield "conv.causal_1d", _figures(sizes)
    if mixer.kind.startswith("attention.") and mixer.causal and mixer.cached:
        yield ("cache.append_latent" if mixer.kv_lora_rank is not None else "cache.append"), _cached(mixer)


def _rope(mixer: Mixer, spec: ModelSpec) -> _Named:
    """The rotary embedding: scaled where any of the model's is; its figures are the layer's."""
    kinds = {rotary.kind for rotary in spec.rotary.values()} - {"default", "none"}
    name = "rope.scaled" if kinds else "rope.default"
    return name, _figures({
        "rope_theta": mixer.rope_theta, "head_dim": _rotated(mixer), "scaling": "/".join(sorted(kinds)),
    })  # fmt: skip


def _cached(mixer: Mixer) -> _Constraints:
    """What one token leaves in the cache: the latent and its rotary part, or keys and values of each head."""
    if mixer.kv_lora_rank is not None:
        return _figures({"kv_lora_rank": mixer.kv_lora_rank, "rope_head_dim": mixer.rope_head_dim})
    return _figures({"head_dim": mixer.head_dim, "kv_heads": mixer.kv_heads})


def _rotated(mixer: Mixer) -> int | None:
    return next((size for size in (mixer.rope_head_dim, mixer.rotary_dim, mixer.head_dim) if size is not None), None)


def _of_feed_forward(feed_forward: FeedForward, spec: ModelSpec) -> Iterable[_Named]:
    figures = asdict(feed_forward)
    yield feed_forward.kind, _figures(figures, drop=("kind", "gated"))
    gated = feed_forward.gated and feed_forward.kind != "mlp.plain"
    if feed_forward.activation is not None:
        name = (_GATED if gated else _PLAIN).get(feed_forward.activation, "activation.other")
        if spec.family in _CLAMPED:
            name = "activation.swiglu_clamped"
        yield name, ({"activation": feed_forward.activation} if name == "activation.other" else {})
    if not feed_forward.routed_experts:
        return
    yield _router(feed_forward)
    experts = {key: figures[key] for key in ("routed_experts", "intermediate_size", "latent_size", "zero_experts")}
    kernel, scheme = _gemm(spec.quantization, ("experts",))
    if kernel == "gemm.dense":
        yield "moe.experts.grouped_gemm", _figures(experts)
    else:
        yield "moe.experts.grouped_gemm_quantized", {**_figures(experts), **scheme, "scheme": kernel.removeprefix("gemm.")}
    for size in (feed_forward.shared_intermediate_size, feed_forward.dense_size):
        if size:
            yield ("mlp.gated" if gated else "mlp.plain"), _figures({"intermediate_size": size})


def _router(feed_forward: FeedForward) -> _Named:
    grouped = (feed_forward.groups or 1) > 1
    wanted: dict[str, object] = {
        "routed_experts": feed_forward.routed_experts, "experts_per_token": feed_forward.experts_per_token,
        "scoring": feed_forward.scoring,
    }  # fmt: skip
    if feed_forward.zero_experts:
        wanted["zero_experts"] = feed_forward.zero_experts
    if feed_forward.hash_routed:
        return "moe.router.hash", _figures(wanted)
    if grouped:
        return "moe.router.grouped_topk", _figures(wanted | {"groups": feed_forward.groups})
    return "moe.router.topk", _figures(wanted)


def _of_model(spec: ModelSpec) -> Iterable[_Named]:
    if not spec.layers:
        return
    sizes = _figures({"hidden_size": spec.hidden_size, "vocabulary_size": spec.vocabulary_size})
    yield "embedding.token", sizes
    if any(mixer.positions == "learned" for layer in spec.layers for mixer in layer.mixers):
        yield "position.learned", _figures({"context_tokens": spec.context_tokens})
    yield "head.logits", sizes
    yield "sampling.greedy", _figures({"vocabulary_size": spec.vocabulary_size})


def _gemm(quantization: Quantization | None, modules: tuple[str, ...]) -> _Named:
    """The kernel behind the projections of these modules, by how their weights are quantized."""
    if quantization is None or ModuleNames(quantization.ignored_modules).match(f"layers.0.{modules[0]}"):
        return "gemm.dense", {}
    group = _group_for(quantization, modules)
    if group is None:
        return ("gemm.dense", {}) if quantization.groups else _by_method(quantization)
    if group.scheme not in _SCHEMES:
        return "gemm.other_quantized", _figures({"bits": group.bits, "method": quantization.method})
    figures: dict[str, object] = {"bits": group.bits, "group_size": group.group_size}
    if quantization.block_shape:
        figures["block_shape"] = "x".join(map(str, quantization.block_shape))
    return _SCHEMES[group.scheme], _figures(figures)


def _group_for(quantization: Quantization, modules: tuple[str, ...]) -> QuantizationGroup | None:
    """The scheme of these modules: the one whose targets name them, else the one that is for all linear modules."""
    for group in quantization.groups:
        if group.targets and any(module in target for target in group.targets for module in modules):
            return group
    return next((group for group in quantization.groups if not group.targets or "Linear" in group.targets), None)


def _by_method(quantization: Quantization) -> _Named:
    bits, method = quantization.bits, quantization.method.lower()
    if quantization.block_shape and bits == 8 and "fp8" in method:
        return "gemm.fp8_block", {"block_shape": "x".join(map(str, quantization.block_shape))}
    if bits == 8 and "fp8" in method:
        return "gemm.fp8_tensor", {"bits": 8}
    if "fp4" in method:
        return "gemm.fp4_block", {"bits": 4}
    if bits == 4 and ("gptq" in method or "awq" in method):
        return "gemm.int4_group", {"bits": 4}
    return "gemm.other_quantized", _figures({"bits": bits, "method": quantization.method})


def _figures(values: Mapping[str, object], drop: tuple[str, ...] = ()) -> _Constraints:
    """The figures that are known: neither None nor zero nor a flag that is off."""
    return {
        key: value
        for key, value in values.items()
        if key not in drop and isinstance(value, int | float | str) and value not in (0, "")
    }
