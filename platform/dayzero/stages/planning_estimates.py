"""Performance estimates by roofline: a bound from the platform's figures, widened by what kernels reach of it in practice."""

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.findings import Finding, Severity
from dayzero.domain.plan import Estimates, Interval
from dayzero.domain.planning import Degrees, Workload
from dayzero.domain.platforms import Figure, PlatformProfile
from dayzero.stages.memory_step import sequences_of
from dayzero.stages.state import bytes_at
from dayzero.stages.weights_prediction import ELEMENT_BYTES

REACHED = (0.9, 0.6, 0.3)
"""Shares of peak that the low, mid and high estimates take. Assumed, not measured: a measurement replaces them."""

_RATES = {"float32": ("float32", "fp32"), "float16": ("float16", "fp16"), "bfloat16": ("bfloat16", "bf16")}


def estimates_of(
    spec: ModelSpec, profile: PlatformProfile, workload: Workload, degrees: Degrees, weights: tuple[int, ...]
) -> tuple[Estimates, str | None]:
    """Times and throughput with what binds in decoding; all None when a figure is missing (missing_figures says which)."""
    if missing_figures(spec, profile, degrees):
        return Estimates(), None
    rate, bandwidth = _rate(spec, profile), profile.memory_bandwidth_bytes_per_s
    active = spec.parameters.active
    assert rate is not None and bandwidth is not None and active is not None
    sequences = sequences_of(workload, degrees)
    cores = degrees.tp * degrees.pp
    compute_s = 2 * active * workload.context_tokens / (rate.value * cores)
    step_compute_s = 2 * active * sequences / (rate.value * cores)
    # A token passes every stage in turn: all stages' weights and state are read, one after the other.
    read = _touched(spec, degrees, weights, sequences) + sequences * (bytes_at(spec.state, workload.context_tokens) or 0)
    step_memory_s = read / (bandwidth.value * degrees.tp)
    link_s = _link_s(spec, profile, degrees, sequences)
    step = max(step_compute_s, step_memory_s)
    binds = "memory bandwidth" if step_memory_s >= step_compute_s else "compute"
    if link_s > step:
        binds = "links"
    prefill = compute_s + _link_s(spec, profile, degrees, workload.context_tokens)
    return Estimates(
        ttft_s=_interval(prefill),
        tpot_s=_interval(step + link_s),
        throughput_tokens_per_s=_throughput(workload.concurrency / (step + link_s)),
    ), binds


def missing_figures(spec: ModelSpec, profile: PlatformProfile, degrees: Degrees) -> tuple[Finding, ...]:
    """Why there is no estimate: one finding for each figure that nobody states."""
    missing = []
    if spec.parameters.active is None or spec.state.bytes_per_token is None:
        missing.append("active parameters and state of the model")
    if profile.memory_bandwidth_bytes_per_s is None:
        missing.append("memory bandwidth")
    if _rate(spec, profile) is None:
        missing.append(f"rate for {spec.native_dtype or 'the native dtype'}")
    if max(degrees.tp, degrees.pp, degrees.ep) > 1 and _bandwidth(profile, degrees) is None:
        missing.append("link bandwidth")
    return tuple(
        Finding("estimate.no_figure", what, f"{what} is not known for {profile.slug}: no estimate", Severity.NOTE)
        for what in missing
    )


def _touched(spec: ModelSpec, degrees: Degrees, weights: tuple[int, ...], sequences: int) -> int:
    total, active = spec.parameters.total_language, spec.parameters.active
    replica = sum(weights) // degrees.dp
    if not total or active is None:
        return replica
    return min(replica, replica * min(total, active * sequences) // total)


def _rate(spec: ModelSpec, profile: PlatformProfile) -> Figure | None:
    names = _RATES.get(spec.native_dtype or "", ())
    return next((profile.flops_per_s[name] for name in names if name in profile.flops_per_s), None)


def _bandwidth(profile: PlatformProfile, degrees: Degrees) -> float | None:
    for domain in profile.link_domains:
        if domain.devices >= degrees.world:
            return domain.bandwidth_bytes_per_s.value if domain.bandwidth_bytes_per_s else None
    return None


def _link_s(spec: ModelSpec, profile: PlatformProfile, degrees: Degrees, tokens: int) -> float:
    bandwidth = _bandwidth(profile, degrees)
    if bandwidth is None:
        return 0.0
    message = tokens * (spec.hidden_size or 0) * ELEMENT_BYTES.get(spec.native_dtype or "", 2)
    # A ring all-reduce moves 2 (n - 1) / n of the message; there are two a layer.
    reduced = 2 * len(spec.layers) * message * 2 * (degrees.tp - 1) / degrees.tp
    return (reduced + (degrees.pp - 1) * message) / bandwidth


def _interval(bound_s: float) -> Interval:
    low, mid, high = REACHED
    return Interval(bound_s / low, bound_s / mid, bound_s / high)


def _throughput(bound: float) -> Interval:
    high, mid, low = REACHED
    return Interval(bound * low, bound * mid, bound * high)
