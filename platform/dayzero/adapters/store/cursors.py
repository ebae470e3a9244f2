"""Cursors: where a page of rows ended, as a word that its reader hands back."""

import base64
import binascii
import json
from collections.abc import Sequence
from datetime import datetime

from dayzero.errors import BadInputError

Place = str | int | float | datetime
_LONGEST = 20_000


def cursor_of(place: Sequence[Place]) -> str:
    """The word for a place in an order."""
    values = [value.isoformat() if isinstance(value, datetime) else value for value in place]
    return base64.urlsafe_b64encode(json.dumps(values, separators=(",", ":")).encode()).decode().rstrip("=")


def place_of(cursor: str, kinds: Sequence[type[Place]]) -> list[Place]:
    """The place that a word stands for; BadInputError for one that was not given out for this order."""
    if len(cursor) > _LONGEST:
        raise _strange()
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        values = json.loads(base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True))
        if not isinstance(values, list) or len(values) != len(kinds):
            raise _strange()
        return [_value(value, kind) for value, kind in zip(values, kinds, strict=True)]
    except (ValueError, binascii.Error, RecursionError) as error:
        raise _strange() from error


def _value(value: object, kind: type[Place]) -> Place:
    if kind is datetime and isinstance(value, str):
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is not None:
            return moment
    elif kind is int and isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        return value
    elif kind is str and isinstance(value, str) and "\0" not in value:
        return _whole(value)
    raise _strange()


def _whole(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _strange() from error
    return text


def _strange() -> BadInputError:
    return BadInputError(
        "the cursor is not one that this list gave out.", remedy="Take `next` of the page before, or begin without a cursor."
    )
