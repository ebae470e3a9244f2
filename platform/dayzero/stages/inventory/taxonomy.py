"""The operator taxonomy: the only names that inventories, specifications and manifests may use at kernel level."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass

from dayzero.errors import BadInputError


@dataclass(frozen=True, slots=True)
class KernelOperator:
    """One kernel-level operator: its meaning, the figures that constrain it, graph operators that show it, library names.

    `holds`: graph operators that it may hold besides, which therefore show nothing else where it is.
    `needs_dtype`: a device without arithmetic in that dtype (as profiles name it) cannot run it, whatever a library offers.
    """

    name: str
    meaning: str
    constraints: tuple[str, ...]
    shown_by: tuple[str, ...]
    known: Mapping[str, tuple[str, ...]]
    needs_dtype: str | None = None
    holds: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """The first word of the name: attention, moe, norm …"""
        return self.name.split(".", 1)[0]


@dataclass(frozen=True, slots=True)
class Taxonomy:
    """All kernel-level operators, sorted by name, with the version of the list."""

    version: int
    operators: tuple[KernelOperator, ...]

    @property
    def names(self) -> frozenset[str]:
        """Every name."""
        return frozenset(operator.name for operator in self.operators)

    def get(self, name: str) -> KernelOperator | None:
        """The operator of that name, or None."""
        return next((operator for operator in self.operators if operator.name == name), None)


def parse_taxonomy(text: str) -> Taxonomy:
    """The taxonomy from its TOML text; BadInputError names the operator and field that is wrong."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInputError(f"the operator taxonomy is not TOML: {error}.") from error
    version, rows = document.get("version"), document.get("operator")
    if not isinstance(version, int) or not isinstance(rows, list):
        raise BadInputError("the operator taxonomy needs `version` (a number) and [[operator]] tables.")
    operators = [_operator(row, place) for place, row in enumerate(rows, 1)]
    names = [operator.name for operator in operators]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadInputError(f"the operator taxonomy names {', '.join(twice)} twice.")
    return Taxonomy(version, tuple(sorted(operators, key=lambda operator: operator.name)))


def _operator(row: object, place: int) -> KernelOperator:
    if not isinstance(row, dict):
        raise BadInputError(f"operator {place} of the taxonomy is not a table.")
    name, meaning, known = row.get("name"), row.get("meaning"), row.get("known", {})
    if not isinstance(name, str) or "." not in name:
        raise BadInputError(f"operator {place} of the taxonomy has no name of the form family.operator.")
    if not isinstance(meaning, str) or not meaning:
        raise BadInputError(f"operator {name} of the taxonomy has no meaning.")
    if not isinstance(known, dict):
        raise BadInputError(f"operator {name} of the taxonomy: `known` is not a table of library names.")
    libraries = {str(library): _texts(names, name, f"known.{library}") for library, names in sorted(known.items())}
    constraints = _texts(row.get("constraints", []), name, "constraints")
    needs_dtype = row.get("needs_dtype")
    if needs_dtype is not None and not isinstance(needs_dtype, str):
        raise BadInputError(f"operator {name} of the taxonomy: `needs_dtype` is not a text.")
    shown_by = _texts(row.get("shown_by", []), name, "shown_by")
    holds = _texts(row.get("holds", []), name, "holds")
    return KernelOperator(name, meaning, constraints, shown_by, libraries, needs_dtype, holds)


def _texts(value: object, name: str, field: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadInputError(f"operator {name} of the taxonomy: `{field}` is not a list of texts.")
    return tuple(value)
