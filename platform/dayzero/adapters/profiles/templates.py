"""Planning templates: the shipped ones, and a user's own file on top of them."""

from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

from dayzero.adapters.profiles.parse import Table
from dayzero.adapters.profiles.tables import parsed_table, read_table
from dayzero.domain.planning import PlanTemplate, Training, Workload
from dayzero.errors import BadInputError, NotFoundError

_Noun = TypeVar("_Noun", Workload, Training)


def load_templates(extra: Path | None) -> Mapping[str, PlanTemplate]:
    """Every template by name; a user's replaces a shipped one of the same name. BadInputError names file, template and key."""
    shipped = parsed_table(files("dayzero.plans").joinpath("templates.toml").read_text(encoding="utf-8"), "templates.toml")
    templates = {name: _template(name, table, "templates.toml") for name, table in shipped.items()}
    if extra is not None:
        own = read_table(extra, f"plan templates {extra}", verb="are", remedy="Correct DAYZERO_PLAN_TEMPLATES.")
        templates |= {name: _template(name, table, extra.name) for name, table in own.items()}
    return templates


def choose_template(templates: Mapping[str, PlanTemplate], name: str) -> PlanTemplate:
    """The template of that name; NotFoundError with the list of those known."""
    if name not in templates:
        raise NotFoundError(f"there is no plan template {name!r}.", remedy=f"Known: {', '.join(sorted(templates))}.")
    return templates[name]


def _template(name: str, table: object, file: str) -> PlanTemplate:
    where = f"plan template {name} ({file})"
    if not isinstance(table, dict):
        raise BadInputError(f"{where} is no table.", remedy=f"Write it under a heading: [{name}].")
    given = dict(table)
    title = given.pop("title", name)
    if not isinstance(title, str):
        raise BadInputError(f"{where}: title is {title!r}.", remedy="Give a sentence in quotes.")
    return PlanTemplate(name, title, _noun(Workload, given, where))


def _noun(kind: type[_Noun], table: Table, where: str) -> _Noun:
    """A workload or a training request from its table: fields by name, each of its own type."""
    hints = get_type_hints(kind)
    known = [field.name for field in fields(kind)]
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            raise BadInputError(f"{where}: {key!r} is no field of a request.", remedy=f"Known: {', '.join(known)}.")
        values[key] = _value(hints[key], value, f"{where}: {key}")
    try:
        return kind(**values)
    except TypeError as error:
        raise BadInputError(f"{where} lacks a field: {error}.", remedy=f"Known: {', '.join(known)}.") from error


def _value(hint: Any, value: object, where: str) -> object:
    options = [option for option in (get_args(hint) or (hint,)) if option is not NoneType]
    wanted = options[0]
    if wanted is Training and isinstance(value, dict):
        return _noun(Training, value, where)
    if isinstance(wanted, type) and issubclass(wanted, StrEnum) and isinstance(value, str):
        if value not in set(wanted):
            raise BadInputError(f"{where} is {value!r}.", remedy=f"Give one of {', '.join(wanted)}.")
        return wanted(value)
    if wanted is str and isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    right = isinstance(value, bool) if wanted is bool else isinstance(value, int | float) and not isinstance(value, bool)
    if wanted in (bool, float) and right:
        return value
    if wanted is int and right and isinstance(value, int):
        return value
    raise BadInputError(f"{where} is {value!r}.", remedy=f"Give {_named(wanted)}.")


def _named(wanted: Any) -> str:
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a list of names"}
    return names.get(wanted, "another kind of value")
