"""What a configuration does not state, and what was taken instead."""

from dataclasses import dataclass, field
from typing import TypeVar

from dayzero.domain.findings import Assumption
from dayzero.errors import BadInputError
from dayzero.stages.configuration.reading import ModelConfig
from dayzero.stages.structure.families import Family

T = TypeVar("T")


@dataclass(slots=True)
class Assumed:
    """Collects what the configuration does not state and was taken from the family's rules."""

    records: list[Assumption] = field(default_factory=list)

    def take(self, name: str, stated: T | None, otherwise: T, why: str) -> T:
        """The stated value, else the other one with a record of why."""
        if stated is not None:
            return stated
        record = Assumption(name, str(otherwise), why)
        if record not in self.records:
            self.records.append(record)
        return otherwise


def needed(config: ModelConfig, family: Family, name: str, value: int | None) -> int:
    """A number that the family cannot do without."""
    if value is None:
        raise BadInputError(
            f"config.json of model type {config.model_type} has no {name}, which every {family.name} model needs.",
            remedy="Ask the publisher for a complete config.json.",
        )
    return value
