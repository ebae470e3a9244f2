"""Announcing an architecture, and pre-staging it here and now."""

import time
from dataclasses import dataclass
from pathlib import Path

from dayzero.adapters.hubs.choose import hub_for
from dayzero.adapters.hubs.directory import config_release
from dayzero.app.benches import is_here, known_platform
from dayzero.app.planes import Plane, control_bench, control_plane
from dayzero.app.told import tell_manifest
from dayzero.app.work import claimed, conclude, ended, leave_rehearsal, run_step, steps_for, stop, why_no_rehearsal
from dayzero.domain.adaptation import GOING_ON, Adaptation, AdaptationState, Lease, Purpose
from dayzero.domain.release import Release
from dayzero.errors import BadInputError, DayzeroError, StaleAttemptError
from dayzero.ports.catalog import Recorded
from dayzero.settings import Settings
from dayzero.steps import announcing, concluding
from dayzero.steps.concluding import Outcome
from dayzero.steps.contract import Place
from dayzero.steps.staged import Staged

FOLLOW_S = 1.0


@dataclass(frozen=True, slots=True)
class Announced:
    """An announced configuration, what was recorded for it, and its pre-stage on each platform (none when left for later)."""

    release: Release
    recorded: Recorded
    staged: tuple[Staged, ...]


def announce(settings: Settings, config: Path, platforms: tuple[str, ...], *, later: bool = False) -> Announced:
    """Record a configuration as announced and pre-stage it for these platforms (none named: those of the settings).

    `later` only records it: a running `dayzero up` pre-stages it. BadInputError: no such file or platform, no configuration.
    """
    for slug in platforms:
        known_platform(settings, slug)
    if not config.is_file():
        raise BadInputError(f"{config} is not a file.", remedy="Name the config.json of the announced model.")
    release = config_release(config)
    wanted = platforms or settings.platforms
    with control_plane(settings) as plane:
        recorded = announcing.announce(plane.watchbook, hub_for(release, settings), release, wanted)
        staged = () if later else tuple(_prestage(plane, recorded.release_id, platform) for platform in wanted)
    return Announced(release, recorded, staged)


def _prestage(plane: Plane, release_id: str, platform: str) -> Staged:
    """Pre-stage it in this process; one that somebody else holds is followed to its end instead."""
    adaptation = plane.catalog.request(release_id, platform, Purpose.PRESTAGE)
    try:
        if adaptation.state is AdaptationState.RUNNING:
            return _followed(plane, adaptation)
        lease = claimed(plane, adaptation, f"process on {platform}")
    except StaleAttemptError:
        return _followed(plane, adaptation)
    return _staged(plane, _run(plane, lease, platform))


def _run(plane: Plane, lease: Lease, platform: str) -> Outcome:
    profile = plane.profiles[platform]
    bench = control_bench(plane)
    try:
        if is_here(profile):
            tell_manifest(plane.ledger, plane.settings, profile)
        for step in steps_for(Purpose.PRESTAGE, Place.CONTROL):
            run_step(bench, lease, step)
        reason = why_no_rehearsal(plane, platform, able=is_here(profile))
        if reason is not None:
            leave_rehearsal(plane, lease, reason)
        for step in steps_for(Purpose.PRESTAGE, Place.PLATFORM) if reason is None else ():
            run_step(bench, lease, step)
    except DayzeroError as error:
        return stop(plane, lease, error)
    return conclude(plane, lease)


def _followed(plane: Plane, adaptation: Adaptation) -> Staged:
    while adaptation.state in GOING_ON:
        time.sleep(FOLLOW_S)
        adaptation = plane.ledger.adaptation(adaptation.id)
    return _staged(plane, ended(plane, adaptation))


def _staged(plane: Plane, outcome: Outcome) -> Staged:
    adaptation = outcome.adaptation
    lease = Lease(adaptation.id, adaptation.attempt, adaptation.claimant or "")
    return Staged(adaptation.platform, outcome, concluding.found_by(control_bench(plane), lease))
