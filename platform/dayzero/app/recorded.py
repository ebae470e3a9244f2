"""One command's work that is recorded in the database."""

import time
from dataclasses import dataclass

from dayzero.adapters.hubs.choose import parse_model_ref, resolve
from dayzero.adapters.profiles.load import choose_profile
from dayzero.app.benches import is_here, known_platform
from dayzero.app.planes import Plane, control_bench, control_plane
from dayzero.app.told import tell_manifest
from dayzero.app.work import claimed, conclude, ended, is_served, run_step, stop
from dayzero.domain.adaptation import GOING_ON, Adaptation, AdaptationState, Purpose
from dayzero.domain.platforms import PlatformProfile
from dayzero.domain.precision_policy import PrecisionPolicy
from dayzero.domain.verdict import Mode
from dayzero.errors import DayzeroError, DependencyError, UnavailableError
from dayzero.settings import Settings
from dayzero.steps import bridging, pipeline

FOLLOW_S = 1.0
PATIENCE = 2.0
"""Times the silence that a running control plane bears, after which there is none."""


@dataclass(frozen=True, slots=True)
class BridgedHere:
    """One `bridge` command: the model, what became of its gaps, and how the attempt ended."""

    model: str
    bridged: bridging.Bridged


def bridge_here(settings: Settings, model: str, platform: str) -> BridgedHere:
    """Pre-stage a model on a platform of this host and bridge its gaps, recorded in the database.

    DependencyError where the platform is not here: candidates are verified on the device.
    """
    if not is_here(known_platform(settings, platform)):
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


def _requested(
    plane: Plane,
    model: str,
    platform: str,
    purpose: Purpose = Purpose.ADAPT,
    mode: Mode = Mode.INFERENCE,
    policy: PrecisionPolicy | None = None,
) -> tuple[Adaptation, PlatformProfile]:
    """The adaptation of the model as its hub has it now, recorded and asked for, and the platform's profile."""
    release = resolve(parse_model_ref(model), plane.settings)
    profile = choose_profile(plane.profiles, platform)
    recorded = plane.watchbook.record_release(release, ())
    adaptation = plane.catalog.request(recorded.release_id, profile.slug, purpose, mode)
    return plane.catalog.follow(adaptation.id, policy), profile


def adapt_here(
    settings: Settings, model: str, platform: str, mode: Mode = Mode.INFERENCE, policy: PrecisionPolicy | None = None
) -> pipeline.Outcome:
    """The whole pipeline in this process, recorded in the database; no Prefect, no worker."""
    with control_plane(settings) as plane:
        adaptation, profile = _requested(plane, model, platform, mode=mode, policy=policy)
        lease = claimed(plane, adaptation, f"process on {platform}")
        bench = control_bench(plane)
        try:
            tell_manifest(plane.ledger, settings, profile)
            for step in pipeline.steps_of(Purpose.ADAPT, mode):
                run_step(bench, lease, step)
        except DayzeroError as error:
            return stop(plane, lease, error)
        return conclude(plane, lease)


def adapt_by_motor(
    settings: Settings, model: str, platform: str, mode: Mode = Mode.INFERENCE, policy: PrecisionPolicy | None = None
) -> pipeline.Outcome:
    """Ask a running `dayzero up` for the adaptation: it is a row, and the reconciler starts it.

    UnavailableError when nobody takes it up: a running one would have started it, or held it for want of a worker.
    """
    with control_plane(settings) as plane:
        adaptation, profile = _requested(plane, model, platform, mode=mode, policy=policy)
        patience_s = PATIENCE * settings.orphan_after_s
        asked_s = plane.clock.monotonic_s()
        while adaptation.state in GOING_ON:
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
