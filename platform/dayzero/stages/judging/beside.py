"""Layers that a model has beside those that LAYERS runs: said to be not run, for what nobody ran must show."""

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.observations import CheckName
from dayzero.domain.verdict import Check, CheckLayer, Grade, Verdict


def beside_checks(spec: ModelSpec, rung: str) -> tuple[Check, ...]:
    """A not_run check for multi-token-prediction layers and one for towers of other modalities; none where there are none."""
    found = []
    if spec.predict_layers:
        reason = (
            f"{spec.predict_layers} multi-token-prediction layers of {spec.model_type} lie outside of the list of decoder"
            " layers that the modelling library builds, and were not run"
        )
        found.append((CheckName.LAYERS_PREDICTION, reason, spec.predict_layers))
    if spec.towers:
        reason = (
            f"the layers of {', '.join(spec.towers)} take images or sound, of which no input is packaged; only the text"
            " model's were run"
        )
        found.append((CheckName.LAYERS_TOWERS, reason, len(spec.towers)))
    return tuple(
        Check(CheckLayer.PRECISION, name.value, rung, Verdict.NOT_RUN, Grade.MEASURED, reason, n=count)
        for name, reason, count in found
    )
