"""Which failing checks somebody answers for. A waived check is not passed: it only no longer makes its entry failing."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from fnmatch import fnmatchcase

from dayzero.domain.verdict import Check, Verdict
from dayzero.domain.waivers import Waiver


def in_force(waivers: Iterable[Waiver], model: str, platform: str, now: datetime) -> tuple[Waiver, ...]:
    """Those that speak of the model on the platform, have not expired and were not ended; the one that lasts longest first."""
    speaking = [
        one
        for one in waivers
        if one.ended_at is None and one.until > now and fnmatchcase(model, one.model) and fnmatchcase(platform, one.platform)
    ]
    return tuple(sorted(speaking, key=lambda one: (one.until, one.id), reverse=True))


def waiver_of(check: Check, waivers: Sequence[Waiver]) -> Waiver | None:
    """The first waiver that speaks of the check, where it fails; nothing else can be waived."""
    if check.verdict is not Verdict.FAIL:
        return None
    return next((one for one in waivers if one.check == check.check), None)


def applied(checks: Iterable[Check], waivers: Sequence[Waiver]) -> tuple[tuple[Check, Waiver], ...]:
    """Failing checks with the waiver of each, in their order."""
    return tuple((check, one) for check in checks if (one := waiver_of(check, waivers)) is not None)


def waived_sentence(pairs: Sequence[tuple[Check, Waiver]]) -> str:
    """What is waived, by whom, until when and why; empty where nothing is."""
    said = [
        f"{check.check} at {check.rung} fails, waived by {one.owner} until {one.until:%Y-%m-%d}: {one.reason}"
        for check, one in pairs
    ]
    return "; ".join(said)
