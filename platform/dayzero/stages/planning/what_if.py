"""What-if: a platform with a resource scaled or taken away, to see what a plan would gain or lose by it."""

import re
from collections.abc import Iterable
from dataclasses import replace

from dayzero.domain.planning import Change
from dayzero.domain.platforms import Figure, FigureStatus, LinkDomain, PlatformProfile
from dayzero.errors import BadInputError

RESOURCES = ("memory", "bandwidth", "compute", "links", "latency", "network", "nodes", "devices")
_COUNTED = ("nodes", "devices")
_FACTOR = re.compile(r"(\d+(?:\.\d+)?(?:e-?\d+)?)x")
_MORE = re.compile(r"[+-]\d{1,6}")


def read_change(text: str) -> Change:
    """A change as it is typed: memory=0.5x, links=2x, nodes=-1, network=none; BadInputError says what is wrong."""
    resource, equals, value = text.partition("=")
    resource, value = resource.strip(), value.strip()
    if not equals or resource not in RESOURCES:
        remedy = f"Give one of {', '.join(RESOURCES)}, as in links=2x."
        raise BadInputError(f"{text[:80]!r} changes nothing that is known.", remedy=remedy)
    if value == "none" and resource not in ("nodes", "devices", "memory"):
        return Change(resource, absent=True)
    if resource in _COUNTED and _MORE.fullmatch(value):
        return Change(resource, more=int(value))
    scaled = _FACTOR.fullmatch(value)
    if scaled and 0 < (factor := float(scaled.group(1))) <= 1e6:
        return Change(resource, factor=factor)
    remedy = "Give a factor as in 0.5x" + (", or a number to add as in -1." if resource in _COUNTED else ", or none.")
    raise BadInputError(f"{text[:80]!r}: {value[:40]!r} is no change of {resource}.", remedy=remedy)


def changed(
    profile: PlatformProfile, devices: int, memory_limit_bytes: int | None, changes: Iterable[Change]
) -> tuple[PlatformProfile, int, int | None]:
    """The profile, number of devices and memory limit after the changes; every changed figure is marked as assumed.

    BadInputError: nodes are changed where nobody says how many devices a node has, or nothing is left.
    """
    for change in changes:
        if change.resource in _COUNTED:
            devices = _counted(profile, devices, change)
        elif change.resource == "memory":
            assert change.factor is not None
            memory_limit_bytes = None if memory_limit_bytes is None else int(memory_limit_bytes * change.factor)
            profile = replace(profile, memory_bytes=_scaled(profile.memory_bytes, change))
        else:
            profile = _changed(profile, change)
    return profile, devices, memory_limit_bytes


def _counted(profile: PlatformProfile, devices: int, change: Change) -> int:
    unit = 1
    if change.resource == "nodes":
        if profile.devices_per_node is None:
            raise BadInputError(f"nobody says how many devices a node of {profile.slug} has.", remedy="Change devices instead.")
        unit = int(profile.devices_per_node.value)
    left = int(devices * change.factor) if change.factor is not None else devices + unit * (change.more or 0)
    if left < 1:
        raise BadInputError(f"{change.resource} would leave {left} of {devices} devices.", remedy="Leave at least one.")
    return left


def _changed(profile: PlatformProfile, change: Change) -> PlatformProfile:
    match change.resource:
        case "bandwidth":
            return replace(profile, memory_bandwidth_bytes_per_s=_scaled(profile.memory_bandwidth_bytes_per_s, change))
        case "compute":
            rates = {name: _scaled(figure, change) for name, figure in profile.flops_per_s.items()}
            return replace(profile, flops_per_s={name: figure for name, figure in rates.items() if figure is not None})
        case "network":
            return replace(profile, nic_bytes_per_s=_scaled(profile.nic_bytes_per_s, change))
        case "latency":
            return replace(profile, link_domains=tuple(
                replace(domain, latency_s=_scaled(domain.latency_s, change)) for domain in profile.link_domains))  # fmt: skip
        case _:
            return replace(profile, link_domains=tuple(_linked(domain, change) for domain in profile.link_domains))


def _linked(domain: LinkDomain, change: Change) -> LinkDomain:
    return replace(domain, bandwidth_bytes_per_s=_scaled(domain.bandwidth_bytes_per_s, change))


def _scaled(figure: Figure | None, change: Change) -> Figure | None:
    """The figure times the factor; None when the resource is gone, and where nobody states it."""
    if figure is None or change.absent or change.factor is None:
        return None
    return replace(figure, value=figure.value * change.factor, status=FigureStatus.ASSUMED,
                   source=f"what if: {change.factor:g} times {figure.value:g} ({figure.source})")  # fmt: skip
