"""What looks wrong or is still missing in a platform profile that loads."""

from collections.abc import Iterable
from itertools import pairwise

from dayzero.domain.findings import Finding, Severity
from dayzero.domain.platforms import Figure, PlatformProfile

_TORCH_DTYPES = frozenset({
    "float64", "float32", "tfloat32", "bfloat16", "float16", "float8", "float4", "int64", "int32", "int16", "int8", "int4",
    "uint8", "bool",
})  # fmt: skip
_LEAST = {
    "memory_bytes": (1e8, "B", "80 GB is 80e9"),
    "memory_bandwidth_bytes_per_s": (1e9, "B/s", "3.35 TB/s is 3.35e12"),
    "nic_bytes_per_s": (1e6, "B/s", "400 Gb/s is 50e9"),
    "host_link_bytes_per_s": (1e8, "B/s", "64 GB/s is 64e9"),
    "link bandwidth": (1e6, "B/s", "450 GB/s is 450e9"),
    "rate": (1e9, "operations a second", "989 TFLOP/s is 989e12"),
}
_MOST_BYTES = 1e13
_MOST_LATENCY_S = 0.1
_LINK_FACTOR = 2
"""Links above this share of the memory's bandwidth are taken for a slip of units or for those of a whole node."""

_PLACEHOLDERS = ("where you read it",)
_NEEDS = {
    "memory_bytes": "whether a plan fits cannot be judged",
    "memory_bandwidth_bytes_per_s": "speed cannot be estimated",
    "flops_per_s": "speed cannot be estimated",
    "link_domains": "the cost of communication cannot be estimated",
    "devices_per_node": "plans do not know where a node ends",
    "nic_bytes_per_s": "the cost of communication between nodes cannot be estimated",
    "host_link_bytes_per_s": "the time of loading weights cannot be estimated",
}


def examine_profile(profile: PlatformProfile) -> tuple[Finding, ...]:
    """What looks wrong (warnings: units, sizes, placeholders, contradictions), then what is missing and what that prevents."""
    return (*_wrong_sizes(profile), *_contradictions(profile), *_placeholders(profile), *_missing(profile))


def _figures(profile: PlatformProfile) -> Iterable[tuple[str, str, Figure]]:
    """(kind, where, figure) of every figure."""
    for name in ("memory_bytes", "memory_bandwidth_bytes_per_s", "nic_bytes_per_s", "host_link_bytes_per_s"):
        figure = getattr(profile, name)
        if figure is not None:
            yield name, name, figure
    for dtype, figure in sorted(profile.flops_per_s.items()):
        yield "rate", f"flops_per_s.{dtype}", figure
    for domain in profile.link_domains:
        if domain.bandwidth_bytes_per_s is not None:
            yield "link bandwidth", f"link_domains.{domain.name}.bandwidth_bytes_per_s", domain.bandwidth_bytes_per_s


def _wrong_sizes(profile: PlatformProfile) -> Iterable[Finding]:
    for kind, where, figure in _figures(profile):
        least, unit, example = _LEAST[kind]
        if figure.value < least:
            message = f"{where} is {figure.value:g} {unit}, which is too little to be true: state it in {unit} ({example})."
            yield Finding("platform.unit", where, message, Severity.WARNING, {"value": figure.value, "least": least})
    memory = profile.memory_bytes
    if memory is not None and memory.value > _MOST_BYTES:
        message = f"memory_bytes is {memory.value:g} B, more than any device has: is it that of the whole node?"
        yield Finding("platform.unit", "memory_bytes", message, Severity.WARNING, {"value": memory.value})
    for domain in profile.link_domains:
        latency = domain.latency_s
        if latency is not None and latency.value > _MOST_LATENCY_S:
            where = f"link_domains.{domain.name}.latency_s"
            message = f"{where} is {latency.value:g} s, which is too long to be true: state it in seconds (1 us is 1e-6)."
            yield Finding("platform.unit", where, message, Severity.WARNING, {"value": latency.value})


def _contradictions(profile: PlatformProfile) -> Iterable[Finding]:
    for dtype in sorted({*profile.dtypes, *profile.flops_per_s, *profile.unsupported_dtypes} - _TORCH_DTYPES):
        message = f"{dtype} is no dtype that profiles know ({', '.join(sorted(_TORCH_DTYPES))})."
        yield Finding("platform.dtype", dtype, message, Severity.WARNING)
    for dtype in sorted(profile.unsupported_dtypes.keys() & {*profile.dtypes, *profile.flops_per_s}):
        message = f"{dtype} is said to be computed in, and not to be."
        yield Finding("platform.dtype", dtype, message, Severity.WARNING)
    bandwidth = profile.memory_bandwidth_bytes_per_s
    for domain in profile.link_domains:
        link = domain.bandwidth_bytes_per_s
        if bandwidth is not None and link is not None and link.value > _LINK_FACTOR * bandwidth.value:
            own = f"the device's own memory ({bandwidth.value:g} B/s)"
            message = f"the link {domain.name} ({link.value:g} B/s) is more than twice as fast as {own}."
            numbers = {"link": link.value, "memory": bandwidth.value}
            yield Finding("platform.link", domain.name, message, Severity.WARNING, numbers)
    sizes = [domain.devices for domain in profile.link_domains]
    for smaller, larger in pairwise(sizes):
        if larger % smaller:
            message = f"a group of {larger} devices does not consist of whole groups of {smaller}."
            yield Finding("platform.link", "link_domains", message, Severity.WARNING, {"smaller": smaller, "larger": larger})


def _placeholders(profile: PlatformProfile) -> Iterable[Finding]:
    for _, where, figure in _figures(profile):
        if figure.source.strip().lower() in _PLACEHOLDERS:
            message = f"the source of {where} is still the template's words: say where the figure is from."
            yield Finding("platform.source", where, message, Severity.WARNING)


def _missing(profile: PlatformProfile) -> Iterable[Finding]:
    if profile.torch_device is None:
        message = "torch_device is missing: no worker can serve the platform, and nothing can be imported from torch."
        yield Finding("platform.missing", "torch_device", message, Severity.NOTE)
    if profile.torch_device == "cpu":
        return
    for name in profile.unpublished:
        need = _NEEDS.get(name.partition(".")[0] if not name.startswith("link_domains.") else "link_domains")
        yield Finding("platform.missing", name, f"{name} is missing: {need}.", Severity.NOTE)
