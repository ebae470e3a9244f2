"""What makes an entry stale: whatever it depends on is another now. What nobody knows makes nothing stale."""

from collections.abc import Mapping

from dayzero.domain.ageing import Ageing, Cause, InForce, StandingEntry
from dayzero.domain.waivers import Waiver

NAMED = 4
"""How many components or figures a sentence names before it only counts."""


def aged(entry: StandingEntry, now: InForce) -> tuple[Ageing, ...]:
    """Every cause for which the entry is stale; none where all that it depends on still holds."""
    causes = (_stack(entry, now), _profile(entry, now), _method(entry, now), *(_waiver(one, now) for one in entry.waivers))
    return tuple(cause for cause in causes if cause is not None)


def reason_of(causes: tuple[Ageing, ...]) -> str:
    """All causes in one sentence."""
    return "; ".join(cause.why for cause in causes)


def _stack(entry: StandingEntry, now: InForce) -> Ageing | None:
    """A stack that no worker has any longer. The newest is the one that the words compare with."""
    if entry.basis is None or not entry.basis.stack or not now.stacks:
        return None
    become = [entry.basis.on(stack) for stack in now.stacks]
    if any(_same(entry.basis.stack, components) for components in become):
        return None
    return Ageing(Cause.STACK, f"the stack of {entry.platform} is another: {_changes(entry.basis.stack, become[0])}")


def _same(was: Mapping[str, str], becomes: Mapping[str, str]) -> bool:
    """Equal components; which providers' packages were joined is told by their versions."""
    return {**was, "published": ""} == {**becomes, "published": ""}


def _profile(entry: StandingEntry, now: InForce) -> Ageing | None:
    if entry.basis is None or not entry.basis.profile or now.profile is None or entry.basis.profile == now.profile:
        return None
    was, becomes = entry.basis.profile, now.profile
    names = sorted(name for name in was.keys() | becomes.keys() if was.get(name) != becomes.get(name))
    return Ageing(Cause.PROFILE, f"the profile of {entry.platform} has other figures: {_listed(names)}")


def _method(entry: StandingEntry, now: InForce) -> Ageing | None:
    if entry.method == now.method:
        return None
    return Ageing(Cause.METHOD, f"it was judged by method {entry.method}, and {now.method} is in force")


def _waiver(waiver: Waiver, now: InForce) -> Ageing | None:
    said = f"the waiver of {waiver.check} by {waiver.owner}"
    if waiver.id in now.ended_waivers:
        return Ageing(Cause.WAIVER, f"{said} was ended")
    if waiver.until <= now.now:
        return Ageing(Cause.WAIVER, f"{said} expired on {waiver.until:%Y-%m-%d %H:%M} UTC")
    return None


def _changes(was: Mapping[str, str], becomes: Mapping[str, str]) -> str:
    said = []
    for name in sorted(was.keys() | becomes.keys()):
        before, after = was.get(name), becomes.get(name)
        if before == after or name == "published":
            continue
        said.append(f"{name} {after} is new" if before is None else f"{name} {before} → {after or 'gone'}")
    return _listed(said)


def _listed(names: list[str]) -> str:
    rest = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {rest} more" if rest > 0 else "")
