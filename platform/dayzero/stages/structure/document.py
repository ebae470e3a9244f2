"""The document of `dayzero inspect --json`."""

from dayzero.domain.architecture import FeedForward, Layer, Mixer, ModelSpec
from dayzero.domain.canonical import Json, plain
from dayzero.domain.findings import Finding
from dayzero.domain.release import HubKind, ModelRef
from dayzero.stages.memory.state_of_sequence import bytes_at
from dayzero.stages.memory.training_state import training_state_of

SCHEMA = "dayzero.inspect/1"


def inspect_document(spec: ModelSpec, ref: ModelRef, context_tokens: int | None) -> dict[str, Json]:
    """The structure as documented JSON; additive only. An unknown number is null, and a finding says why."""
    state = plain(spec.state)
    assert isinstance(state, dict)
    findings = list(spec.findings)
    if context_tokens is not None:
        state["bytes_at_context"] = bytes_at(spec.state, context_tokens)
        state["context_tokens"] = context_tokens
    if spec.state.bytes_per_token is None:
        findings.append(Finding("state.unknown", "state", "the cache of this architecture is unknown"))
    return {
        "schema": SCHEMA,
        "model": _model(ref),
        "architecture": spec.architecture,
        "model_type": spec.model_type,
        "known": spec.known,
        "hidden_size": spec.hidden_size,
        "vocabulary_size": spec.vocabulary_size,
        "context_tokens": spec.context_tokens,
        "native_dtype": spec.native_dtype,
        "tied_embeddings": spec.tied_embeddings,
        "prediction_layers": spec.predict_layers,
        "towers": list(spec.towers),
        "remote_code": spec.remote_code,
        "layers": [_layer(layer) for layer in spec.layers],
        "parameters": plain(spec.parameters),
        "weights": plain(spec.weights),
        "state": state,
        "training_state": _training(spec),
        "quantization": plain(spec.quantization),
        "rotary": plain(spec.rotary),
        "residual": spec.residual,
        "residual_streams": spec.residual_streams,
        "findings": plain(findings),
        "assumptions": plain(spec.assumptions),
    }


def _model(ref: ModelRef) -> dict[str, Json]:
    if ref.hub in (HubKind.DIRECTORY, HubKind.CONFIG):
        return {"hub": ref.hub.value, "path": ref.location, "revision": ref.revision}
    return {"hub": ref.hub.value, "repo_id": ref.location, "revision": ref.revision}


def _training(spec: ModelSpec) -> Json:
    state = training_state_of(spec)
    return (
        None
        if state is None
        else {"optimizer": state.optimizer, "items_bytes": plain(state.items_bytes), "total_bytes": state.total_bytes}
    )


def _layer(layer: Layer) -> dict[str, Json]:
    """Mixer and feed-forward by their taxonomy names, their figures beside them."""
    mixer, feed_forward, parallel = _part(layer.mixer), _part(layer.feed_forward), _part(layer.parallel)
    return {
        "index": layer.index,
        "mixer": mixer.pop("kind", None),
        "feed_forward": feed_forward.pop("kind", None),
        "norm": layer.norm,
        "mixer_figures": mixer,
        "feed_forward_figures": feed_forward,
        "parallel_mixer": parallel.pop("kind", None),
        "parallel_mixer_figures": parallel,
    }


def _part(part: Mixer | FeedForward | None) -> dict[str, Json]:
    figures = plain(part)
    assert figures is None or isinstance(figures, dict)
    return figures or {}
