"""Layers that a model has beside those that are run: said to be not run, for what nobody ran must show."""

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.observations import CheckName
from dayzero.domain.verdict import Check, CheckLayer, Grade, Verdict


def beside_checks(spec: ModelSpec, rung: str) -> tuple[Check, ...]:
    """A not_run check for multi-token-prediction layers; none where there are none."""
    count = spec.predict_layers
    if not count:
        return ()
    reason = (
        f"no reference: the {count} multi-token-prediction layers of {spec.model_type} come after the {len(spec.layers)} layers"
        " that the modelling library builds; it has no code for them, and drops their tensors when it loads the checkpoint"
    )
    name = CheckName.LAYERS_PREDICTION.value
    return (Check(CheckLayer.PRECISION, name, rung, Verdict.NOT_RUN, Grade.MEASURED, reason, n=count),)
