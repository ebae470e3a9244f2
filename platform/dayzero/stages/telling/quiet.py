"""Quiet hours: until when a subscriber is left alone."""

import re
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dayzero.domain.subscriptions import Quiet
from dayzero.errors import BadInputError

_HOURS = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")


def read_quiet(text: str) -> Quiet:
    """Quiet hours as people write them: `22:00-07:00 Europe/Berlin` (no zone: UTC). BadInputError."""
    hours, _, zone = text.strip().partition(" ")
    begins, _, ends = hours.partition("-")
    if not _HOURS.fullmatch(begins) or not _HOURS.fullmatch(ends) or begins == ends:
        raise BadInputError(f"{text[:80]!r} are no quiet hours.", remedy="Write them as 22:00-07:00 Europe/Berlin.")
    name = zone.strip() or "UTC"
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadInputError(f"there is no time zone {name[:80]!r}.", remedy="Name one as IANA does: Europe/Berlin.") from error
    return Quiet(begins, ends, name)


def quiet_until(quiet: Quiet, now: datetime) -> datetime | None:
    """When the quiet hours that hold now end, in UTC; None outside of them."""
    try:
        zone = ZoneInfo(quiet.time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        zone = ZoneInfo("UTC")
    here = now.astimezone(zone)
    begins, ends = time.fromisoformat(quiet.begins), time.fromisoformat(quiet.ends)
    at = here.time()
    over_midnight = begins > ends
    inside = (at >= begins or at < ends) if over_midnight else begins <= at < ends
    if not inside:
        return None
    day = here.date() + timedelta(days=1) if over_midnight and at >= begins else here.date()
    return datetime.combine(day, ends, zone).astimezone(UTC)
