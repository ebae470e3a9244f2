"""How pages write figures, moments and texts of several lines."""

from datetime import datetime

from markupsafe import Markup

from dayzero.stages.bundle.escape import clean

UNKNOWN = "–"


def figure(value: object) -> str:
    """A number in four figures, whole ones in groups of three digits; a dash for what nobody knows."""
    if value is None:
        return UNKNOWN
    if not isinstance(value, int | float):
        return str(value)
    whole = isinstance(value, int) or value.is_integer()
    return f"{value:,.0f}" if whole and abs(value) < 1e15 else f"{value:.4g}"


def moment(value: object) -> Markup | str:
    """A moment to the minute; a dash where nobody knows it."""
    at = _moment(value)
    if at is None:
        return UNKNOWN
    return Markup('<time datetime="{}">{}</time>').format(at.isoformat(), f"{at:%Y-%m-%d %H:%M}")


def past(value: object, now: datetime) -> bool:
    """Whether the moment lies behind."""
    at = _moment(value)
    return at is not None and at <= now


def lines(text: str, characters: int) -> str:
    """Several lines of text, cut, in which control and direction marks are made visible."""
    shown = "\n".join(clean(line.expandtabs()) for line in text[:characters].splitlines())
    return shown if len(text) <= characters else f"{shown}…"


def _moment(value: object) -> datetime | None:
    if isinstance(value, datetime):
        return value
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


FILTERS = {"figure": figure, "moment": moment, "past": past, "lines": lines}
"""What templates call them by."""
