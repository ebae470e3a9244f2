"""The operator inventory of a model: kernels from its specification, graph operators from its trace, and what disagrees."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict

from dayzero.domain.architecture import FeedForward, Layer, Mixer, ModelSpec, Quantization
from dayzero.domain.findings import Finding, Severity
from dayzero.domain.operators import KernelUse, OperatorInventory, Trace
from dayzero.stages.taxonomy import Taxonomy

_Constraints = Mapping[str, int | float | str]

_GATED = {"silu": "activation.silu_gate", "swish": "activation.silu_gate", "gelu": "activation.gelu_gate",
          "gelu_pytorch_tanh": "activation.gelu_gate", "gelu_new": "activation.gelu_gate"}  # fmt: skip
_PLAIN = {"gelu": "activation.gelu", "gelu_new": "activation.gelu", "gelu_fast": "activation.gelu",
          "gelu_pytorch_tanh": "activation.gelu", "relu": "activation.relu", "relu2": "activation.relu"}  # fmt: skip

_WITNESSES: Mapping[str, frozenset[str]] = {
    "attention": frozenset({"aten.scaled_dot_product_attention.default", "aten._softmax.default"}),
    "moe": frozenset({"aten._grouped_mm.default", "aten.topk.default"}),
    "norm.rms": frozenset({"aten.rsqrt.default", "aten.rms_norm.default"}),
    "norm.layer": frozenset({"aten.native_layer_norm.default"}),
    "rope": frozenset({"aten.cos.default"}),
    "activation.silu_gate": frozenset({"aten.silu.default"}),
    "activation.gelu_gate": frozenset({"aten.gelu.default"}),
    "conv": frozenset({"aten.convolution.default"}),
}
"""Graph operators of which one at least is there when the kernel family is, whatever the implementation."""

_DOUBTFUL = frozenset({"aten._softmax.default", "aten.topk.default", "aten.silu.default", "aten.gelu.default"})
"""Witnesses that other families use too: they confirm a prediction, but alone they predict nothing."""


def inventory_of(spec: ModelSpec, trace: Trace | None, taxonomy: Taxonomy) -> OperatorInventory:
    """Everything that the model needs, on both levels.

    Kernel names come from the taxonomy alone: a name that the specification uses and the taxonomy does not hold becomes a
    finding. Without a trace the graph level is empty and a finding says so.
    """
    findings: list[Finding] = []
    kernels = _kernels(spec, taxonomy, findings)
    method = None if spec.quantization is None else spec.quantization.method
    if trace is None:
        findings.append(Finding("inventory.not_traced", "graph", "nothing was traced: the graph level is unknown"))
        return OperatorInventory(spec.architecture, kernels, (), None, tuple(findings), quantization=method)
    findings.extend(trace.findings)
    if spec.layers:
        findings.extend(_disagreements(kernels, trace))
        findings.extend(_parameters_differ(spec, trace))
    return OperatorInventory(
        spec.architecture, kernels, trace.uses, trace.library, tuple(findings), trace.symbols, trace.collectives,
        trace.compiled, trace.tp, trace.decompositions, method,
    )  # fmt: skip


def _kernels(spec: ModelSpec, taxonomy: Taxonomy, findings: list[Finding]) -> tuple[KernelUse, ...]:
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


def _of_layer(layer: Layer, spec: ModelSpec) -> Iterable[tuple[str, _Constraints]]:
    for mixer in layer.mixers:
        yield mixer.kind, _of_mixer(mixer)
        if mixer.rope_theta is not None:
            yield "rope.default", _figures({"rope_theta": mixer.rope_theta, "head_dim": _rotated(mixer)})
        if mixer.kind.startswith("attention."):
            yield "cache.append", _cached(mixer)
    yield layer.norm, _figures({"hidden_size": spec.hidden_size})
    if layer.feed_forward is not None:
        yield from _of_feed_forward(layer.feed_forward)
    yield _gemm(spec.quantization)


def _of_mixer(mixer: Mixer) -> _Constraints:
    """A mixer's figures, those of its indexer and its recurrent state by prefixed names."""
    figures = _figures(asdict(mixer), drop=("kind", "bias", "rope_theta", "positions", "causal", "cached"))
    inner = {"indexer": mixer.indexer, "state": mixer.recurrence}
    nested = {f"{name}_{key}": value for name, part in inner.items() if part for key, value in asdict(part).items()}
    return {**figures, **_figures(nested)}


def _cached(mixer: Mixer) -> _Constraints:
    """What one token leaves in the cache: the latent and its rotary part, or keys and values of each head."""
    if mixer.kv_lora_rank is not None:
        return _figures({"kv_lora_rank": mixer.kv_lora_rank, "rope_head_dim": mixer.rope_head_dim})
    return _figures({"head_dim": mixer.head_dim, "kv_heads": mixer.kv_heads})


def _rotated(mixer: Mixer) -> int | None:
    return mixer.rope_head_dim if mixer.rope_head_dim is not None else mixer.head_dim


def _of_feed_forward(feed_forward: FeedForward) -> Iterable[tuple[str, _Constraints]]:
    figures = asdict(feed_forward)
    yield feed_forward.kind, _figures(figures, drop=("kind",))
    gated = feed_forward.kind != "mlp.plain"
    if feed_forward.activation is not None:
        name = (_GATED if gated else _PLAIN).get(feed_forward.activation, "activation.other")
        yield name, ({"activation": feed_forward.activation} if name == "activation.other" else {})
    if feed_forward.routed_experts:
        grouped = (feed_forward.groups or 1) > 1
        wanted = {key: figures[key] for key in ("routed_experts", "experts_per_token", "scoring")}
        router = "moe.router.grouped_topk" if grouped else "moe.router.topk"
        yield router, _figures(wanted | ({"groups": feed_forward.groups} if grouped else {}))
        yield "moe.experts.grouped_gemm", _figures({key: figures[key] for key in ("routed_experts", "intermediate_size")})


def _of_model(spec: ModelSpec) -> Iterable[tuple[str, _Constraints]]:
    if not spec.layers:
        return
    sizes = _figures({"hidden_size": spec.hidden_size, "vocabulary_size": spec.vocabulary_size})
    yield "embedding.token", sizes
    yield "head.logits", sizes
    yield "sampling.greedy", _figures({"vocabulary_size": spec.vocabulary_size})


def _gemm(quantization: Quantization | None) -> tuple[str, _Constraints]:
    """The kernel behind a layer's projections, by how the weights are quantized."""
    if quantization is None:
        return "gemm.dense", {}
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
    """The figures that are known: neither None nor zero."""
    return {
        key: value
        for key, value in values.items()
        if key not in drop and isinstance(value, int | float | str) and value not in (0, "")
    }


def _disagreements(kernels: tuple[KernelUse, ...], trace: Trace) -> Iterable[Finding]:
    """Kernel families that only one of specification and trace shows."""
    seen = {use.name for use in trace.uses}
    predicted = {kernel.name for kernel in kernels}
    families = predicted | {name.split(".", 1)[0] for name in predicted}
    for family, witnesses in _WITNESSES.items():
        if family in families and not witnesses & seen:
            message = f"the specification predicts {family} and the trace shows none of {', '.join(sorted(witnesses))}"
            yield Finding("inventory.predicted_not_traced", family, message)
        alone = (witnesses - _DOUBTFUL) & seen
        if family not in families and alone and not _explained(family, families):
            message = f"the trace shows {', '.join(sorted(alone))} and the specification predicts no {family}"
            yield Finding("inventory.traced_not_predicted", family, message)


def _parameters_differ(spec: ModelSpec, trace: Trace) -> Iterable[Finding]:
    """Whether the library builds another number of language parameters than the specification counts."""
    built = sum(count for component, count in trace.parameters_by_component.items() if component != "towers")
    stated = spec.parameters.total_language
    if built and stated and built != stated:
        message = f"{trace.library} builds {built} language parameters and the specification counts {stated}"
        yield Finding(
            "inventory.parameters_differ", "parameters", message, Severity.WARNING, {"built": built, "stated": stated}
        )


def _explained(family: str, families: set[str]) -> bool:
    """Whether other predicted kernels bring the witnesses with them: state-space and linear mixers hold short convolutions
    and normalize by rsqrt inside."""
    return family in ("conv", "norm.rms") and bool(families & {"linear_attention", "ssm"})
