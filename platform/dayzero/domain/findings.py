"""What a stage noticed and what it had to assume."""

from dataclasses import dataclass, field
from enum import StrEnum

from dayzero.domain.canonical import Numbers


class Severity(StrEnum):
    """How much a finding matters to whoever reads it."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something a stage noticed: a stable code, the subject's name, one sentence, and its figures.

    `names` lists all that show it (tensors, fields), where there is more than the sentence can hold.
    """

    code: str
    subject: str
    message: str
    severity: Severity = Severity.WARNING
    numbers: Numbers = field(default_factory=dict)
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Assumption:
    """A field that the source does not state, the value taken for it, and why that value."""

    field: str
    value: str
    why: str
