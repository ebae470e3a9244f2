"""Nouns from JSON: validated once, at the door."""

from collections.abc import Hashable
from functools import lru_cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from dayzero.domain.canonical import canonical_json
from dayzero.errors import BadInputError

Noun = TypeVar("Noun")


@lru_cache(maxsize=256)
def _adapter(noun: Any) -> TypeAdapter[Any]:
    return TypeAdapter(noun)


def load(noun: type[Noun], document: bytes | str) -> Noun:
    """The noun of that type from its JSON document; BadInputError names the field that is wrong."""
    try:
        return cast("Noun", _adapter(cast("Hashable", noun)).validate_json(document))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "document"
        raise BadInputError(f"not a {noun.__name__}: {where}: {first['msg']}") from error


def dump(noun: object) -> bytes:
    """The noun's canonical JSON document."""
    return canonical_json(noun)
