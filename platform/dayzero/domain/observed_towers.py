"""What is observed of towers: encoders of images or sound beside the language model."""

from dataclasses import dataclass

from dayzero.domain.observations import LayerErrors


@dataclass(frozen=True, slots=True)
class TowerErrors:
    """One tower on a drawn input, by its path in the model; `unable` says why its layers were not run (None: they were)."""

    path: str
    layers: LayerErrors | None = None
    unable: str | None = None


@dataclass(frozen=True, slots=True)
class TowersObserved:
    """Every tower that the modelling library builds for the model."""

    towers: tuple[TowerErrors, ...]
    observed_s: float = 0.0
