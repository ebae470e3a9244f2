"""Limits of what a ledger takes, the same in every ledger."""

from dayzero.codec import dump
from dayzero.domain.verdict import Check, CheckLayer
from dayzero.errors import BadInputError

MAX_DOCUMENT_BYTES = 64 * 2**20
"""Documents and artifacts above this are refused: they must fit in memory a few times over, on both ends."""

MAX_LOG_LINE_CHARACTERS = 16 * 1024
MAX_NAME_CHARACTERS = 1024
_LAYERS = tuple(layer.value for layer in CheckLayer)


def within_limit(data: bytes, what: str) -> bytes:
    """The bytes, or BadInputError with their size."""
    if len(data) > MAX_DOCUMENT_BYTES:
        raise BadInputError(f"{what} has {len(data)} bytes; more than {MAX_DOCUMENT_BYTES} are not stored.")
    return data


def document_of(noun: object, what: str) -> bytes:
    """The noun's canonical document, within the limit; BadInputError for what has no JSON form (NaN, infinities)."""
    try:
        return within_limit(dump(noun), what)
    except (ValueError, TypeError) as error:
        raise BadInputError(f"{what} cannot be stored: {error}.") from error


def short_name(name: str, what: str) -> str:
    """The name, or BadInputError when it is empty or absurdly long."""
    if not name or len(name) > MAX_NAME_CHARACTERS:
        raise BadInputError(f"{what} must have 1 to {MAX_NAME_CHARACTERS} characters; this one has {len(name)}.")
    return name


def log_line(message: str) -> str:
    """The line, cut where it is absurdly long, and then saying so."""
    if len(message) <= MAX_LOG_LINE_CHARACTERS:
        return message
    return f"{message[:MAX_LOG_LINE_CHARACTERS]}… [{len(message) - MAX_LOG_LINE_CHARACTERS} more characters]"


def check_order(check: Check) -> tuple[int, str, str]:
    """Checks go by layer (in the order of the method), name and rung."""
    return _LAYERS.index(check.layer.value), check.check, check.rung
