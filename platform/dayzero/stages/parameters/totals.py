"""Parameter totals from a configuration alone, under every convention that publishers use."""

from collections import Counter
from fractions import Fraction

from dayzero.domain.architecture import ModelSpec, Parameters, Source
from dayzero.domain.canonical import Numbers
from dayzero.domain.findings import Finding, Severity
from dayzero.stages.configuration.reading import ModelConfig
from dayzero.stages.parameters.counting import components_of, correction_biases, idle_elements
from dayzero.stages.parameters.expected import ExpectedTensor
from dayzero.stages.parameters.prediction import prediction_elements
from dayzero.stages.parameters.towers import tower_elements


def totals_of(spec: ModelSpec, config: ModelConfig, expected: tuple[ExpectedTensor, ...]) -> tuple[Parameters, list[Finding]]:
    """The counts that the configuration leads to, from its expected tensors, and findings for each that it does not."""
    components = components_of(expected)
    language = sum(components.values())
    if not language:
        finding = Finding("parameters.unknown", "parameters", "neither headers nor structure rules give a parameter count")
        return Parameters(None, None, None, None, {}, Source.CONFIG), [finding]
    active = language - idle_elements(spec, components["experts"])
    towers, findings = _towers(spec, config)
    drafts = prediction_elements(spec, config)
    if drafts is None:
        message = f"{spec.predict_layers} multi-token-prediction layers are counted from headers only, and there are none yet"
        findings.append(_note("parameters.prediction_unknown", "multi_token_prediction", message,
                              {"layers": spec.predict_layers}))  # fmt: skip
    total = None if towers is None else language + towers
    checkpoint = None if total is None or drafts is None else total + drafts + correction_biases(spec)
    by_component = dict(components)
    if towers:
        by_component["towers"] = towers
    if drafts:
        by_component["multi_token_prediction"] = drafts
    conventions = active_conventions(spec, active, components, drafts)
    return Parameters(language, total, checkpoint, active, by_component, Source.CONFIG, conventions), findings


def active_conventions(spec: ModelSpec, active: int, components: Counter[str], drafts: int | None) -> dict[str, int]:
    """Active parameters as publishers count them: gpt-oss leaves out the input embedding, MiniMax-M1 embedding and head, hubs
    count draft layers. A tied embedding is the head, so it stays where only the input embedding is left out."""
    table = components["embeddings"] if not spec.tied_embeddings else 0
    conventions = {
        "with_embeddings_and_head": active,
        "without_input_embedding": active - table,
        "without_embeddings_and_head": active - components["embeddings"] - components["head"],
    }
    spared = _spared(spec, components["experts"])
    if spared:
        conventions["with_zero_experts_at_random"] = active - spared
    if drafts and spec.predict_layers:
        idle = idle_elements(spec, components["experts"])
        slots = sum(1 for layer in spec.layers if layer.experts)
        conventions["with_prediction"] = active + drafts - (spec.predict_layers * idle // slots if slots else 0)
    return conventions


def _spared(spec: ModelSpec, expert_elements: int) -> int:
    """What zero experts spare on average, when routing takes every expert alike (LongCat-Flash publishes that average)."""
    routed = [layer.feed_forward for layer in spec.layers if layer.feed_forward and layer.feed_forward.routed_experts]
    slots = sum(feed_forward.routed_experts for feed_forward in routed)
    spared = sum(Fraction(one.experts_per_token * one.zero_experts, one.routed_experts + one.zero_experts) for one in routed)
    return int(spared * expert_elements / slots) if slots else 0


def _towers(spec: ModelSpec, config: ModelConfig) -> tuple[int | None, list[Finding]]:
    total = 0
    for tower in config.towers:
        elements = tower_elements(tower, spec.hidden_size)
        if elements is None:
            message = f"parameters of {tower.name} are known from headers only, and there are none yet"
            return None, [_note("parameters.towers_unknown", tower.name, message, {})]
        total += elements
    return total, []


def _note(code: str, subject: str, message: str, numbers: Numbers) -> Finding:
    return Finding(code, subject, message, Severity.NOTE, numbers)
