"""Buffers of the collectives that a plan uses."""

from dayzero.domain.architecture import Layer, ModelSpec
from dayzero.domain.planning import Choices, Degrees
from dayzero.stages.memory.state_of_sequence import growth_of
from dayzero.stages.memory.step import Step


def link_bytes(spec: ModelSpec, layers: tuple[Layer, ...], degrees: Degrees, choices: Choices, step: Step, stage: int) -> int:
    """Buffers on one rank of a pipeline stage, all there at once.

    Tensor parallelism: hidden states in and out of the sum (with sequence parallelism: of the gather and the scatter).
    Pipeline: hidden states that arrive, and those that leave. Context parallelism: keys and values of a neighbour's share,
    and of the next neighbour's (ring attention, arXiv 2310.01889). What a communication library keeps for itself is in the
    platform's reserve.
    """
    each = 1 if choices.compressed else step.element_bytes
    streams = step.hidden * (spec.residual_streams if spec.residual == "hyper_connections" else 1)
    total = 2 * step.tokens * step.hidden * each if degrees.tp > 1 else 0
    neighbours = (stage > 0) + (stage < degrees.pp - 1)
    total += neighbours * step.stream_tokens * streams * each
    if degrees.cp > 1:
        widest = max((_cached_width(layer, degrees.tp) for layer in layers), default=0)
        total += 2 * step.tokens * widest * each
    return total


def _cached_width(layer: Layer, tp: int) -> int:
    widths = [sum(cost for cost, _ in growth_of(mixer, tp)) for mixer in layer.mixers]
    return int(max(widths, default=0))
