"""A structure for people: what the model is made of, in a dozen rows."""

from collections import Counter
from collections.abc import Iterator

from dayzero.domain.architecture import Layer, ModelSpec
from dayzero.domain.reports import Cell
from dayzero.stages.memory.training_state import training_state_of

Row = dict[str, Cell]


def structure_rows(spec: ModelSpec) -> tuple[Row, ...]:
    """Kinds of layers, parameters, state and weights, each with its unit; unknown figures are left blank."""
    parameters, state = spec.parameters, spec.state
    rows: list[Row] = [{"what": "layers", "value": f"{count} × {kind}"} for kind, count in _kinds(spec).items()]
    rows += _optional(spec)
    rows += [
        {"what": f"parameters: {name.replace('_', ' ')}", "value": count} for name, count in parameters.by_component.items()
    ]
    rows += [
        {"what": "parameters with towers", "value": parameters.total},
        {"what": "parameters of the whole checkpoint", "value": parameters.checkpoint_total},
        {"what": "active parameters", "value": parameters.active},
    ]
    rows += [
        {"what": f"active, {name.replace('_', ' ')}", "value": count}
        for name, count in parameters.active_by_convention.items()
        if count != parameters.active
    ]
    rows += [
        {"what": f"state bytes per token ({state.dtype})", "value": state.bytes_per_token},
        {"what": "state bytes that do not grow", "value": state.constant_bytes},
    ]
    rows += [
        {"what": f"state bytes per token from token {segment.from_token:,}", "value": segment.bytes_per_token}
        for segment in state.segments[1:]
    ]
    rows.append({"what": "native dtype", "value": spec.native_dtype})
    if spec.weights.bytes is not None:
        rows.append({"what": "weight bytes", "value": spec.weights.bytes})
    elif spec.weights.predicted_bytes is not None:
        rows.append({"what": "weight bytes, predicted", "value": spec.weights.predicted_bytes})
    training = training_state_of(spec)
    if training is not None:
        rows.append({"what": f"bytes to train it ({training.optimizer})", "value": training.total_bytes})
    return tuple(rows)


def _kinds(spec: ModelSpec) -> Counter[str]:
    return Counter(_kind(layer) for layer in spec.layers)


def _kind(layer: Layer) -> str:
    parts = [mixer.kind for mixer in layer.mixers]
    parts = [" beside ".join(parts)] if parts else []
    feed_forward = layer.feed_forward
    if feed_forward is not None:
        text = feed_forward.kind
        if feed_forward.routed_experts:
            text += f" ({feed_forward.experts_per_token} of {feed_forward.routed_experts} experts"
            text += f", {feed_forward.shared_experts} shared)" if feed_forward.shared_experts else ")"
        parts.append(text)
    return " + ".join(parts)


def _optional(spec: ModelSpec) -> Iterator[Row]:
    if spec.quantization is not None:
        schemes = ", ".join(dict.fromkeys(group.scheme for group in spec.quantization.groups)) or spec.quantization.method
        yield {"what": "quantization", "value": f"{schemes} ({spec.quantization.method}, from {spec.quantization.source})"}
    if spec.predict_layers:
        yield {"what": "multi-token-prediction layers", "value": spec.predict_layers}
    if spec.residual != "add":
        yield {"what": "residual", "value": spec.residual.replace("_", " ")}
    for kind, rotary in spec.rotary.items():
        factor = "" if rotary.factor is None else f", factor {rotary.factor:g}"
        theta = "unknown" if rotary.theta is None else f"{rotary.theta:g}"
        yield {"what": f"rotary embedding, {kind.replace('_', ' ')}", "value": f"{rotary.kind}, base {theta}{factor}"}
