"""What a ledger is told before a model is judged: manifests, bridges."""

from dayzero.app.benches import is_here, manifest_probe, stack_here
from dayzero.app.local import LocalWork
from dayzero.app.planes import control_plane, database_exists
from dayzero.app.platforms import recorded_manifest
from dayzero.domain.platforms import PlatformProfile
from dayzero.ports.ledger import Ledger
from dayzero.registry import settings_for
from dayzero.settings import Settings
from dayzero.steps import bridges, prestaging


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
