"""What a platform really does: its operators and collectives, run on this host's device."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase

from dayzero.adapters.operators.collectives import probe_collectives
from dayzero.adapters.operators.device import MEMORY_BYTES, Progress, probe_operators
from dayzero.adapters.remote.ledger import HttpLedger
from dayzero.app.benches import is_here, known_platform, manifest_probe
from dayzero.app.planes import Plane
from dayzero.domain.manifests import CollectiveFact, ManifestOrigin
from dayzero.domain.operators import OperatorManifest
from dayzero.domain.platforms import PlatformProfile, Stack
from dayzero.domain.probing import DeviceProbe
from dayzero.errors import BadInputError, MeasurementError
from dayzero.ports.ledger import Ledger
from dayzero.settings import Settings
from dayzero.stages.platforms.probing import measured_manifest

_ALWAYS = ("int64", "bool")
"""Dtypes of positions and masks, which every model uses beside the platform's own."""

_NO_TORCH_DTYPES = frozenset({"tfloat32", "float8", "float4", "int4"})
"""Names that profiles know and that are modes or families, no dtype of torch."""


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """What to probe: shell patterns of operators, the time to spend (None: all that it takes), devices for the collectives."""

    patterns: tuple[str, ...] = ("aten.*",)
    budget_s: float | None = None
    devices: int = 2
    collectives: bool = True


def probe_platform(settings: Settings, slug: str, ask: ProbeRequest, progress: Progress) -> tuple[OperatorManifest, Stack]:
    """Run the platform's operators on this host's device, and its collectives; the measured manifest, with the stack it is of.

    Nothing is recorded yet. MeasurementError where the device is not here, DependencyError without torch.
    """
    profile = known_platform(settings, slug)
    if profile.torch_device is None:
        raise BadInputError(f"the profile of {slug} states no torch_device.", remedy="Add it to the profile.")
    started_s = time.monotonic()
    on_processor = profile.torch_device == "cpu"
    declared, stack = manifest_probe(settings, profile)
    names = [support.name for support in declared.operators if any(fnmatchcase(support.name, like) for like in ask.patterns)]
    if not names:
        raise BadInputError(f"no operator of {slug} is called {' or '.join(ask.patterns)}.", remedy="Write one as aten.mm.*")
    dtypes = tuple(dict.fromkeys((*(name for name in profile.dtypes if name not in _NO_TORCH_DTYPES), *_ALWAYS)))
    probes = probe_operators(
        names,
        device=profile.torch_device,
        dtypes=dtypes,
        plugged=profile.device if is_here(profile) else None,
        budget_s=ask.budget_s,
        memory_bytes=MEMORY_BYTES if on_processor else None,
        progress=progress,
    )
    collectives, notes = _collectives(settings, profile, ask) if ask.collectives else ((), ())
    took_s = time.monotonic() - started_s
    found = DeviceProbe(probes.found, collectives, probes.skipped, took_s, probes.restarts, notes)
    return measured_manifest(declared, found), stack


def _collectives(
    settings: Settings, profile: PlatformProfile, ask: ProbeRequest
) -> tuple[tuple[CollectiveFact, ...], tuple[str, ...]]:
    """The collectives' facts, and why there are none."""
    on_processor = profile.torch_device == "cpu"
    backend = "gloo" if on_processor else profile.collectives.value if profile.collectives else None
    if backend is None:
        return (), (f"the profile of {profile.slug} names no library of collectives: they were not measured",)
    ranks = max(2, settings.cpu_devices) if on_processor else ask.devices
    try:
        return probe_collectives(device=profile.torch_device or "cpu", backend=backend, ranks=ranks), ()
    except MeasurementError as error:
        return (), (str(error),)


@contextmanager
def told_to(settings: Settings, here: Callable[[], AbstractContextManager[Plane]]) -> Iterator[Ledger]:
    """The ledger that a probe is recorded in: the control plane's over HTTP on a worker's host, else that of the plane here."""
    if settings.ledger_url is not None and settings.worker_token is not None:
        ledger = HttpLedger(settings.ledger_url, settings.worker_token.get_secret_value())
        try:
            yield ledger
        finally:
            ledger.close()
        return
    with here() as plane:
        yield plane.ledger


def tell_stack(ledger: Ledger, manifest: OperatorManifest, stack: Stack) -> None:
    """Record what a worker's stack declares, unless it was probed before: what was measured is not taken back by a list."""
    known = ledger.manifest(stack.platform)
    if known is None or known[1] != stack or known[0].origin is not ManifestOrigin.PROBE:
        ledger.put_manifest(manifest, stack)
