"""Structure: a configuration, and headers where there are any, become a ModelSpec."""

from collections import Counter
from dataclasses import replace

from dayzero.domain.architecture import (
    Layer,
    ModelSpec,
    Parameters,
    SequenceState,
    Source,
    WeightsSummary,
)
from dayzero.domain.findings import Finding, Severity
from dayzero.domain.tensors import CheckpointIndex
from dayzero.stages.configuration.reading import ModelConfig, read_configuration
from dayzero.stages.layout.names import Part, place_of
from dayzero.stages.memory.state_of_sequence import state_of
from dayzero.stages.parameters.counting import expected_tensors, idle_elements
from dayzero.stages.parameters.expected import ExpectedTensor
from dayzero.stages.parameters.headers import HeaderCount, count_headers, disagreements, total_differs
from dayzero.stages.parameters.totals import active_conventions, totals_of
from dayzero.stages.parameters.weights import predicted_weight_bytes
from dayzero.stages.structure.assumed import Assumed
from dayzero.stages.structure.contradictions import contradictions, rotary_findings
from dayzero.stages.structure.families import BY_ARCHITECTURE, FAMILIES, Family, family_of
from dayzero.stages.structure.headers import with_header_norms
from dayzero.stages.structure.layers import layers_of


def read_spec(
    config: bytes,
    index: CheckpointIndex | None,
    *,
    side: bytes | None = None,
    weight_bytes: int | None = None,
    kv_dtype: str = "bfloat16",
    known: bool | None = None,
) -> ModelSpec:
    """The structure of a model from the bytes of its config.json and its tensor headers (None: before weights).

    `side` is the quantization side file, where there is one; `weight_bytes` is what the hub says of the files' size, taken
    where no headers are; `known` whether the modelling library knows the type. An unknown type gives what the headers prove,
    with findings. BadInputError: see read_configuration, and a configuration of a known type that lacks a needed number.
    """
    read = read_configuration(config, side)
    assumed = Assumed()
    family = _family(read, assumed)
    stated = layers_of(read, family, assumed) if family is not None else ()
    layers, norm_findings = with_header_norms(stated, index)
    tied, tied_findings = _tied(read, family, index, assumed)
    spec = ModelSpec(
        architecture=read.architecture,
        model_type=read.model_type,
        known=known,
        hidden_size=read.hidden_size,
        vocabulary_size=read.vocabulary_size,
        context_tokens=read.context_tokens,
        native_dtype=_dtype(read, family, index, assumed),
        tied_embeddings=tied,
        layers=layers,
        parameters=Parameters(None, None, None, None, {}, Source.CONFIG),
        weights=_weights(index, weight_bytes),
        state=_state(family, layers, kv_dtype),
        quantization=read.quantization,
        remote_code=read.remote_code,
        family=family.name if family else None,
        predict_layers=read.predict_layers,
        towers=tuple(tower.name for tower in read.towers),
        rotary=read.rotary,
        residual="hyper_connections" if read.residual_streams else "attention" if read.residual_block else "add",
        residual_streams=read.residual_streams or 1,
        segments=read.segments or 0,
        layer_input_width=read.layer_input_width if family and family.layer_inputs else 0,
        layer_input_vocabulary=read.layer_input_vocabulary or read.vocabulary_size or 0,
    )
    expected = expected_tensors(spec)
    parameters, findings = _parameters(spec, index, read, expected)
    predicted, weight_findings = predicted_weight_bytes(replace(spec, parameters=parameters), expected)
    findings = [
        *read.findings, *(index.findings if index else ()), *tied_findings, *_unknown(read, family), *norm_findings,
        *findings, *rotary_findings(read.rotary), *(() if index else weight_findings), *contradictions(spec, index),
    ]  # fmt: skip
    return replace(
        spec,
        parameters=parameters,
        weights=replace(spec.weights, predicted_bytes=predicted),
        findings=tuple(findings),
        assumptions=tuple(assumed.records),
    )


def _family(config: ModelConfig, assumed: Assumed) -> Family | None:
    """The family of the model type; of a type that nobody knows, that of the class which the configuration names."""
    known = FAMILIES.get(config.text_model_type or "") or FAMILIES.get(config.model_type or "")
    family = BY_ARCHITECTURE.get(config.architecture or "")
    if known is not None or family is None:
        return known
    why = f"the type {config.model_type} is unknown, but the class {config.architecture} is the one of {family.name}"
    assumed.take("model_type", None, family.name, why)
    return family


def _state(family: Family | None, layers: tuple[Layer, ...], kv_dtype: str) -> SequenceState:
    return state_of(layers if family is not None else None, kv_dtype)


def _weights(index: CheckpointIndex | None, weight_bytes: int | None) -> WeightsSummary:
    if index is None:
        return WeightsSummary(weight_bytes)
    by_dtype: Counter[str] = Counter()
    for header in index.tensors:
        by_dtype[header.dtype] += header.size_bytes
    return WeightsSummary(index.weight_bytes, dict(sorted(by_dtype.items())))


_TORCH_NAMES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64"}


def _dtype(config: ModelConfig, family: Family | None, index: CheckpointIndex | None, assumed: Assumed) -> str | None:
    if config.dtype is not None:
        return config.dtype.removeprefix("torch.")
    sizes: Counter[str] = Counter()
    for header in index.tensors if index else ():
        if header.dtype in _TORCH_NAMES:
            sizes[_TORCH_NAMES[header.dtype]] += header.size_bytes
    if not sizes:
        stated = family.dtype if family else None
        return assumed.take("dtype", None, stated, "absent: what published checkpoints have") if stated else None
    return assumed.take("dtype", None, sizes.most_common(1)[0][0], "absent: what most bytes of the headers are")


def _tied(
    config: ModelConfig, family: Family | None, index: CheckpointIndex | None, assumed: Assumed
) -> tuple[bool | None, list[Finding]]:
    stated = config.tied_embeddings
    names = {place_of(header.name, config.layers).part for header in index.tensors} if index else set()
    if Part.EMBEDDINGS in names:
        stored = Part.HEAD in names
        if stated is None:
            why = "absent: the checkpoint holds a head" if stored else "absent: the checkpoint holds no head"
            return assumed.take("tie_word_embeddings", None, not stored, why), []
        if stated is False and not stored:
            return stated, [Finding("embeddings.no_head", "lm_head", "the configuration says that embeddings and head are not "
                                    "tied, but the checkpoint holds no head", Severity.ERROR)]  # fmt: skip
        if stated and stored:
            return stated, [Finding("embeddings.two_heads", "lm_head", "the configuration ties the head to the embeddings, but "
                                    "the checkpoint holds a head too; it is taken as a copy")]  # fmt: skip
        return stated, []
    if stated is not None or family is None:
        return stated, []
    return assumed.take("tie_word_embeddings", None, family.tied_default, f"absent: {family.name} default"), []


def _unknown(config: ModelConfig, family: Family | None) -> list[Finding]:
    if family is not None:
        return []
    name = config.text_model_type or config.architecture or "unnamed"
    return [
        Finding(
            "structure.unknown_architecture",
            name,
            f"no structure rules are known for the model type {name}: layers and "
            "cache are unknown, parameters are what the headers prove",
        )
    ]


def _parameters(
    spec: ModelSpec, index: CheckpointIndex | None, config: ModelConfig, expected: tuple[ExpectedTensor, ...]
) -> tuple[Parameters, list[Finding]]:
    if index is None or not index.tensors:
        return totals_of(spec, config, expected)
    bits = spec.quantization.bits if spec.quantization else None
    counted = count_headers(index, config.layers, bits, spec.tied_embeddings)
    family = family_of(spec)
    named = family is not None and family.names_known
    findings = disagreements(spec, index, expected, bits) if expected and named else total_differs(counted, expected)
    if counted.unread:
        message = f"{len(counted.unread)} tensors are packed in a way that the configuration does not state"
        findings.append(Finding("parameters.packing_unknown", counted.unread[0], message, Severity.WARNING,
                                {"count": len(counted.unread)}))  # fmt: skip
        return Parameters(None, None, None, None, dict(counted.language), Source.TENSOR_HEADERS), findings
    return _from_headers(spec, counted, config, findings)


def _from_headers(
    spec: ModelSpec, counted: HeaderCount, config: ModelConfig, findings: list[Finding]
) -> tuple[Parameters, list[Finding]]:
    language = counted.language_elements
    experts = counted.language["experts"]
    active: int | None = language
    if experts:
        active = language - idle_elements(spec, experts) if spec.layers else _active_unknown(config, language, experts)
    if active is None:
        findings.append(Finding("parameters.active_unknown", "experts", "the headers hold experts, but the configuration does "
                                "not say how many a token uses"))  # fmt: skip
    towers = counted.outside["towers"]
    checkpoint = language + sum(counted.outside.values())
    components = {**counted.language, **counted.outside}
    conventions = {} if active is None else active_conventions(
        spec, active, counted.language, counted.outside["multi_token_prediction"] or None)  # fmt: skip
    return Parameters(language, language + towers, checkpoint, active, components, Source.TENSOR_HEADERS, conventions), findings


def _active_unknown(config: ModelConfig, language: int, experts: int) -> int | None:
    if not config.routed_experts or not config.experts_per_token:
        return None
    return language - experts + experts * config.experts_per_token // config.routed_experts
