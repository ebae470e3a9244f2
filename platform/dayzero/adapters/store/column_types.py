"""Column types for text and JSON from outside: what PostgreSQL cannot hold is replaced, not refused.

PostgreSQL's text has no NUL and UTF-8 no lone surrogates; a model's sample text or a crashed child's log may hold both.
"""

from typing import Any

from sqlalchemy import DateTime, Dialect, Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeDecorator

from dayzero.domain.canonical import Json

_REPLACEMENT = "\ufffd"

Moment = DateTime(timezone=True)
"""A moment with its time zone."""


def clean_text(text: str) -> str:
    """The text with NUL and lone surrogates replaced by U+FFFD."""
    return text.encode("utf-8", "replace").decode().replace("\x00", _REPLACEMENT) if not _is_clean(text) else text


def _is_clean(text: str) -> bool:
    return "\x00" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def clean_json(value: Json) -> Json:
    """The document with every string in it cleaned."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [clean_json(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(key): clean_json(item) for key, item in value.items()}
    return value


class CleanText(TypeDecorator[str]):
    """TEXT that takes any str."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Clean on the way in."""
        return None if value is None else clean_text(value)


class CleanJson(TypeDecorator[Any]):
    """JSONB that takes any JSON document."""

    impl = JSONB
    cache_ok = True

    def process_bind_param(self, value: Json, dialect: Dialect) -> Json:
        """Clean on the way in."""
        return clean_json(value)


__all__ = ["CleanJson", "CleanText", "Moment", "clean_json", "clean_text"]
