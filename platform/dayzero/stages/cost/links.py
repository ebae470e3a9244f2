"""Collectives over nested link domains: seconds by algorithm, from bandwidth, latency and who sits where.

Ranks are numbered tensor-parallel first, so a group of `size` ranks at a stride of `stride` has `domain // stride` members
inside each domain; what passes between domains goes over the next larger one. A latency that nobody states is not counted,
and said (`latency_findings`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, log2

from dayzero.domain.findings import Finding, Severity
from dayzero.domain.platforms import PlatformProfile

_EVERYWHERE = 1 << 40
NETWORK_BYTES_PER_S = 64e9
"""Links of no more are networks or buses; the fabrics that join accelerators directly start at twice that."""


@dataclass(frozen=True, slots=True)
class Link:
    """One level of the network: a domain's name, how many devices it joins, bytes/s a device and direction, seconds a hop."""

    name: str
    devices: int
    bytes_per_s: float
    latency_s: float


@dataclass(frozen=True, slots=True)
class Hop:
    """A level that a group's traffic passes: the link and how many parts it joins there."""

    link: Link
    parts: int


def links_of(profile: PlatformProfile, share: float = 1.0, wide_share: float = 1.0) -> tuple[Link | None, ...]:
    """The platform's links from the smallest domain to the network between nodes, each at the share of its bandwidth that is
    reached: `wide_share` on networks (64 GB/s a device and less), whose transfers are cut into packets by a host adapter.

    None stands for a domain without a stated bandwidth: what needs it cannot be estimated.
    """
    links: list[Link | None] = []
    for domain in sorted(profile.link_domains, key=lambda domain: domain.devices):
        known = domain.bandwidth_bytes_per_s
        if known is None or known.value <= 0:
            links.append(None)
            continue
        latency = domain.latency_s.value if domain.latency_s else 0.0
        reached = known.value * (wide_share if known.value <= NETWORK_BYTES_PER_S else share)
        links.append(Link(domain.name, domain.devices, reached, latency))
    if profile.nic_bytes_per_s is not None and profile.nic_bytes_per_s.value > 0:
        reached = profile.nic_bytes_per_s.value
        reached *= wide_share if reached <= NETWORK_BYTES_PER_S else share
        links.append(Link("network between nodes", _EVERYWHERE, reached, 0.0))
    return tuple(links)


class Network:
    """Answers how long a collective takes; None when it passes a link of unknown bandwidth."""

    def __init__(
        self,
        profile: PlatformProfile,
        share: float = 1.0,
        wide_share: float = 1.0,
        call_s: float = 0.0,
        wide_call_s: float = 0.0,
    ) -> None:
        self._links = links_of(profile, share, wide_share)
        self._domains = sorted(domain.devices for domain in profile.link_domains)
        self._call_s, self._wide_call_s = call_s, wide_call_s
        self._calls: dict[tuple[int, int], float] = {}
        self._hops: dict[tuple[int, int], tuple[Hop, ...] | None] = {}
        self._worst: dict[tuple[int, int], tuple[float, float] | None] = {}

    @property
    def slowest_bytes_per_s(self) -> float | None:
        """The slowest link that is stated; None when none is, or the outermost one is not."""
        known = [link.bytes_per_s for link in self._links if link is not None]
        return min(known) if known and self._links[-1] is not None else None

    def hops(self, size: int, stride: int) -> tuple[Hop, ...] | None:
        """The levels that a group passes, the innermost first; None when one of them is unknown."""
        key = (size, stride)
        if key not in self._hops:
            self._hops[key] = self._walk(size, stride)
        return self._hops[key]

    def _walk(self, size: int, stride: int) -> tuple[Hop, ...] | None:
        hops: list[Hop] = []
        inside = 1
        for at, link in enumerate(self._links):
            devices = link.devices if link is not None else self._domains[at]
            reach = min(size, max(1, devices // stride))
            # A domain that cuts a group unevenly is passed by the fullest part.
            parts = ceil(size / inside) if reach >= size else max(1, reach // inside)
            if parts > 1:
                if link is None:
                    return None
                hops.append(Hop(link, parts))
                inside *= parts
            if inside >= size:
                return tuple(hops)
        return tuple(hops) if inside >= size else None

    def farthest(self, size: int, stride: int) -> str:
        """The name of the slowest level that a group passes."""
        hops = self.hops(size, stride) or ()
        return min(hops, key=lambda hop: hop.link.bytes_per_s).link.name if hops else "links"

    def all_reduce(self, message: float, size: int, stride: int = 1) -> float | None:
        """Sum of a message over the group: reduce-scatter inward, all-gather outward, level by level (hierarchical ring); or,
        where latency outweighs bytes, a tree of whole messages (the faster is taken)."""
        ring = self._scatter(message, size, stride, 2.0)
        tree = self._tree(message, size, stride)
        return None if ring is None or tree is None else min(ring, tree) + self.call_s(size, stride)

    def all_gather(self, message: float, size: int, stride: int = 1) -> float | None:
        """Every rank ends with the whole message, of which each had an equal part; reduce-scatter takes as long."""
        once = self._scatter(message, size, stride, 1.0)
        return None if once is None else once + self.call_s(size, stride)

    def all_to_all(self, message: float, size: int, stride: int = 1) -> float | None:
        """Each rank sends its message in equal parts to all others, pairwise: what leaves a domain takes the next link."""
        hops = self.hops(size, stride)
        if hops is None:
            return None
        seconds, inside = self.call_s(size, stride), 1
        for hop in hops:
            reach = min(size, inside * hop.parts)
            seconds += message * (reach - inside) / size / hop.link.bytes_per_s + hop.link.latency_s
            inside = reach
        return seconds

    def point_to_point(self, message: float, stride: int, span: int) -> float | None:
        """From one pipeline stage to the next, `stride` ranks away, where the pipeline spans `span` ranks: the worst hop."""
        size = max(2, span // max(1, stride))
        key = (size, stride)
        if key not in self._worst:
            hops = self.hops(size, stride)
            self._worst[key] = None if hops is None else (
                min(hop.link.bytes_per_s for hop in hops), max(hop.link.latency_s for hop in hops))  # fmt: skip
        worst = self._worst[key]
        return None if worst is None else message / worst[0] + worst[1] + self.call_s(size, stride)

    def call_s(self, size: int, stride: int) -> float:
        """What starting a collective takes, whatever its bytes; more where it leaves the innermost domain."""
        key = (size, stride)
        if key not in self._calls:
            inner = self._domains[0] if self._domains else 1
            wide = any(hop.link.devices > inner for hop in self.hops(size, stride) or ())
            self._calls[key] = 0.0 if size <= 1 else self._wide_call_s if wide else self._call_s
        return self._calls[key]

    def _scatter(self, message: float, size: int, stride: int, ways: float) -> float | None:
        hops = self.hops(size, stride)
        if hops is None:
            return None
        seconds, left = 0.0, message
        for hop in hops:
            steps = hop.parts - 1
            seconds += ways * (steps / hop.parts * left / hop.link.bytes_per_s + steps * hop.link.latency_s)
            left /= hop.parts
        return seconds

    def _tree(self, message: float, size: int, stride: int) -> float | None:
        hops = self.hops(size, stride)
        if hops is None:
            return None
        return sum(2 * ceil(log2(hop.parts)) * (message / hop.link.bytes_per_s + hop.link.latency_s) for hop in hops)


def latency_findings(profile: PlatformProfile) -> Iterator[Finding]:
    """Which links were counted by bandwidth alone."""
    for domain in profile.link_domains:
        if domain.bandwidth_bytes_per_s is not None and domain.latency_s is None:
            message = f"nobody states the latency of {domain.name} ({profile.slug}): its bandwidth alone was counted"
            yield Finding("estimate.no_latency", domain.name, message, Severity.NOTE)
    if profile.nic_bytes_per_s is not None:
        yield Finding("estimate.no_latency", "network between nodes", f"nobody states the latency between nodes of "
                      f"{profile.slug}: its bandwidth alone was counted", Severity.NOTE)  # fmt: skip
