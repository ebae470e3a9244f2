"""One canonical JSON form for every noun, so that equal nouns have equal digests."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
"""What a JSON document can hold."""

Numbers = Mapping[str, int | float | str | None]
"""The figures that stand behind a reason, by name (units in the names)."""


_ATOMS = frozenset((str, int, type(None), bool))


def plain(value: object) -> Json:
    """Turn a noun (dataclass, enum, mapping, sequence, date) into plain JSON values.

    Raises TypeError for what has no JSON form and ValueError for NaN and infinities, which JSON cannot carry.
    """
    # A manifest has hundreds of thousands of numbers and names: those that are exactly such take no further question.
    if type(value) in _ATOMS:
        return value  # type: ignore[return-value]  # narrowed by its exact type, which mypy does not follow
    if isinstance(value, Enum):
        return plain(value.value)
    # Before the rest, since tables of hundreds of rows are made of these two.
    if isinstance(value, dict):
        return _plain_mapping(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} has no JSON form; use None and say why")
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name in _names(type(value))}
    if isinstance(value, Mapping):
        return _plain_mapping(value)
    if isinstance(value, list | tuple):
        return [item if type(item) in _ATOMS else plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=repr)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _plain_mapping(value: Mapping[Any, Any]) -> Json:
    return {
        key if type(key) is str else str(plain(key)): item if type(item) in _ATOMS else plain(item)
        for key, item in value.items()
    }


@cache
def _names(noun: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(noun))


def canonical_json(value: object) -> bytes:
    """The noun as UTF-8 JSON with sorted keys and no spaces: the form that digests are taken over."""
    text = json.dumps(plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def digest(value: object) -> str:
    """The sha256, in hex, of the noun's canonical JSON."""
    return hashlib.sha256(canonical_json(value)).hexdigest()
