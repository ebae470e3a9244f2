"""Layer by layer: the errors of the evidence with the line that judged them."""

from collections.abc import Iterable

from dayzero.domain.entry_report import LayerFigures, LayerSeries, OperatorFigures
from dayzero.domain.observations import LayerErrors, OperatorError, OperatorErrors
from dayzero.domain.observed_decoding import DecodeErrors
from dayzero.domain.verdict import Check, Culprit
from dayzero.stages.precision import limits as precision

MOST_OPERATORS = 8


def layer_series(observed: LayerErrors, check: Check, culprits: Iterable[Culprit]) -> LayerSeries:
    """The layers of a prefill, given the reference's input, and on their own."""
    dtype = observed.native_dtype
    figures = []
    for layer in observed.layers:
        line = precision.layer_line(layer, dtype)
        mean = precision.mean_line(layer.target, layer.native, dtype)
        figures.append(
            LayerFigures(
                index=layer.index,
                module=layer.module,
                own=layer.target.rms_relative,
                native=layer.native.rms_relative,
                inherited=layer.cumulative_target.rms_relative,
                tolerance=mean.tolerance,
                stands_out=line.stands_out,
                inherits=precision.inherits(layer, dtype),
                identical=layer.identical,
                tokens=layer.tokens,
                tokens_excluded=layer.tokens_excluded,
                why=line.why,
            )
        )
    return LayerSeries(
        check.check, check.rung, dtype, observed.reference_dtype, observed.target_path, observed.tokens, tuple(figures),
        _accused(figures, culprits),
    )  # fmt: skip


def decode_series(observed: DecodeErrors, check: Check, culprits: Iterable[Culprit]) -> LayerSeries:
    """The layers in cached decoding: `own` with the native reference's cache where it could be handed over, `inherited` with
    the cache that the target's own prefill filled."""
    dtype = observed.native_dtype
    figures = []
    for layer in observed.layers:
        line = precision.decode_line(layer, dtype)
        own = layer.on_reference_cache or layer.target
        figures.append(
            LayerFigures(
                index=layer.index,
                module=layer.module,
                own=own.rms_relative,
                native=layer.native.rms_relative,
                inherited=layer.target.rms_relative if layer.on_reference_cache is not None else None,
                tolerance=precision.mean_line(own, layer.native, dtype).tolerance,
                stands_out=line.stands_out,
                inherits=precision.mean_line(layer.target, layer.native, dtype).stands_out,
                identical=layer.identical,
                tokens=layer.tokens,
                tokens_excluded=layer.tokens_excluded,
                why=line.why,
            )
        )
    tokens = observed.prompt_tokens + observed.chunk_tokens + observed.steps
    return LayerSeries(
        check.check, check.rung, dtype, observed.reference_dtype, observed.target_path, tokens, tuple(figures),
        _accused(figures, culprits),
    )  # fmt: skip


def nearest_operators(observed: OperatorErrors) -> tuple[OperatorFigures, ...]:
    """The compared operators that came nearest to their limit, those beyond it first."""
    compared = [one for one in observed.operators if one.reference is not None]
    worst = sorted(compared, key=_badness, reverse=True)[:MOST_OPERATORS]
    return tuple(
        OperatorFigures(one.operator, one.dtypes, one.module, one.share_within, one.rms_relative, one.nonfinite, one.n)
        for one in worst
    )


def _badness(one: OperatorError) -> tuple[bool, float, float]:
    return precision.operator_stands_out(one), 1.0 - (one.share_within if one.share_within is not None else 1.0), (
        one.rms_relative or 0.0
    )  # fmt: skip


def _accused(figures: Iterable[LayerFigures], culprits: Iterable[Culprit]) -> tuple[int, ...]:
    """The layers that stand out here and that a culprit names: a culprit does not say which check found it."""
    named = {culprit.layer_index for culprit in culprits}
    return tuple(one.index for one in figures if one.stands_out and one.index in named)
