"""Platforms: accelerators with their figures, stacks and link domains."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from dayzero.domain.canonical import digest


class FigureStatus(StrEnum):
    """Who says a figure."""

    PUBLISHED = "published"
    THIRD_PARTY = "third-party"
    PROBED = "probed"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its unit, source and status. A figure that nobody publishes is absent, never guessed."""

    value: float
    unit: str
    source: str
    status: FigureStatus


@dataclass(frozen=True, slots=True)
class Fact:
    """A name instead of a number, with its source and status: a package, a library, an engine."""

    value: str
    source: str
    status: FigureStatus


@dataclass(frozen=True, slots=True)
class LinkDomain:
    """Devices joined by one kind of link; domains nest, the smallest first."""

    name: str
    devices: int
    bandwidth_bytes_per_s: Figure | None = None
    latency_s: Figure | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """A torch device other than the host, and what it is told of itself.

    `torch_device` names its plugin in the entry-point group `dayzero.devices`. `dtypes` are those it computes in (integers
    apart), `operator_dtypes` the fewer of single operators, `masked_operators` those without a kernel, with the reason.
    """

    torch_device: str
    memory_bytes: int | None = None
    dtypes: tuple[str, ...] = ()
    operator_dtypes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    masked_operators: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlatformProfile:
    """An accelerator platform. Memory, bandwidth and rates are per device; None where nobody says.

    `excluded_operators` maps operators known not to work to the reason, `operator_dtypes` others to the only dtypes they
    work in; `pool` is its Prefect work pool. `vendor` is a short
    name that packages use (flag-gems' backends). `nic_bytes_per_s` and `host_link_bytes_per_s` are per device and direction;
    `engines` maps an engine to what brings it there; `unsupported_dtypes` arithmetic that a source says the device lacks.
    `reserve_bytes` is what runtime, allocator and graphs keep of a device's memory for themselves, where somebody measured it.
    """

    slug: str
    title: str
    torch_device: str | None
    memory_bytes: Figure | None = None
    memory_bandwidth_bytes_per_s: Figure | None = None
    flops_per_s: Mapping[str, Figure] = field(default_factory=dict)
    link_domains: tuple[LinkDomain, ...] = ()
    dtypes: tuple[str, ...] = ()
    excluded_operators: Mapping[str, str] = field(default_factory=dict)
    operator_dtypes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: str = ""
    vendor: str | None = None
    devices_per_node: Figure | None = None
    nic_bytes_per_s: Figure | None = None
    host_link_bytes_per_s: Figure | None = None
    plugin_package: Fact | None = None
    collectives: Fact | None = None
    engines: Mapping[str, Fact] = field(default_factory=dict)
    unsupported_dtypes: Mapping[str, Fact] = field(default_factory=dict)
    reserve_bytes: Figure | None = None

    @property
    def device(self) -> Device | None:
        """The device that models are placed on; None where it is the host's own processor, or where nobody knows it."""
        if self.torch_device in (None, "cpu"):
            return None
        memory_bytes = None if self.memory_bytes is None else int(self.memory_bytes.value)
        return Device(self.torch_device or "", memory_bytes, self.dtypes, self.operator_dtypes, self.excluded_operators)

    @property
    def pool(self) -> str:
        """The Prefect work pool that serves this platform."""
        return f"dayzero-{self.slug}"

    @property
    def unpublished(self) -> tuple[str, ...]:
        """The figures that nobody publishes: whatever needs one says so. The `cpu` platform's are probed, not published."""
        figures = {
            "memory_bytes": self.memory_bytes,
            "memory_bandwidth_bytes_per_s": self.memory_bandwidth_bytes_per_s,
            "flops_per_s": self.flops_per_s or None,
            "link_domains": self.link_domains or None,
            "devices_per_node": self.devices_per_node,
            "nic_bytes_per_s": self.nic_bytes_per_s,
            "host_link_bytes_per_s": self.host_link_bytes_per_s,
        }
        links = {f"link_domains.{domain.name}": domain.bandwidth_bytes_per_s for domain in self.link_domains}
        return tuple(name for name, figure in (figures | links).items() if figure is None)

    @property
    def figures_digest(self) -> str:
        """The digest over the figures; prose (title, notes) does not change it."""
        return digest(
            {
                "slug": self.slug,
                "torch_device": self.torch_device,
                "memory_bytes": self.memory_bytes,
                "memory_bandwidth_bytes_per_s": self.memory_bandwidth_bytes_per_s,
                "flops_per_s": self.flops_per_s,
                "link_domains": self.link_domains,
                "dtypes": self.dtypes,
                "excluded_operators": self.excluded_operators,
                "devices_per_node": self.devices_per_node,
                "nic_bytes_per_s": self.nic_bytes_per_s,
                "host_link_bytes_per_s": self.host_link_bytes_per_s,
                "unsupported_dtypes": self.unsupported_dtypes,
                **({"operator_dtypes": self.operator_dtypes} if self.operator_dtypes else {}),
                **({"reserve_bytes": self.reserve_bytes} if self.reserve_bytes else {}),
            }
        )


@dataclass(frozen=True, slots=True)
class Stack:
    """What is installed on a worker: component → version. Our own version is no part of it.

    A published package that nobody here has installed is told of as a stack too, with the component `published`.
    """

    platform: str
    components: Mapping[str, str]

    @property
    def published(self) -> str | None:
        """The provider whose published package this stands for; None for what is installed on a worker."""
        return self.components.get("published")

    @property
    def fingerprint(self) -> str:
        """The digest over platform and components."""
        return digest(self)
