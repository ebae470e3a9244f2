"""What a ledger is told before a model is judged: the platform's manifest, bridges that are known, other models' gaps."""

from dayzero.app.benches import is_here, manifest_probe, stack_here
from dayzero.app.local import LocalWork
from dayzero.app.planes import Plane, recorded_plane
from dayzero.domain.operators import CoverageReport, TraceOptions
from dayzero.domain.platforms import PlatformProfile
from dayzero.domain.release import model_name
from dayzero.ports.ledger import Ledger
from dayzero.registry import settings_for
from dayzero.settings import Settings
from dayzero.stages.coverage.ranking import with_models
from dayzero.stages.platforms.sampled import carried
from dayzero.steps import bridges, prestaging
from dayzero.steps.lacking import lacking


def tell_manifest(ledger: Ledger, settings: Settings, profile: PlatformProfile, recorded: Ledger | None = None) -> None:
    """Record what the platform offers: as this host's stack is probed, else as the database (`recorded`) was told or imported.

    What is here is asked again when its stack, or what the profile tells a device, has changed.
    """
    told = ledger.manifest(profile.slug)
    if told is not None and not (is_here(profile) and told[1].fingerprint != stack_here(settings, profile).fingerprint):
        return
    known = None if recorded is None else recorded.manifest(profile.slug)
    if is_here(profile):
        manifest, stack = manifest_probe(settings, profile)
        same = known is not None and known[1] == stack
        ledger.put_manifest(carried(manifest, known[0]) if known is not None and same else manifest, stack)
    elif known is not None:
        ledger.put_manifest(*known)


def _tell_bridges(work: LocalWork, recorded: Ledger, options: TraceOptions) -> None:
    """Copy what the database's ledger knows of bridges for the gaps of a command's model into the command's own."""
    bench, lease = work.bench, work.lease
    subject = prestaging.subject_of(bench, lease)
    report = prestaging.coverage(bench, lease, options).noun
    plugins = settings_for(subject.adaptation.model, bench.operator_plugins)
    needed = prestaging.inventory(bench, lease, options).noun
    for key in bridges.keys_for(bench, subject.profile, report, needed, plugins):
        if (stored := recorded.find_result(key)) is not None:
            bench.ledger.put_result(stored.key, stored.document, lease)


def tell(settings: Settings, work: LocalWork) -> None:
    """Tell a command's own ledger all that is known of its platform, here and in the database, if there is one."""
    with recorded_plane(settings) as plane:
        _tell(settings, work, plane, prestaging.USUAL)


def covered(settings: Settings, work: LocalWork, options: TraceOptions) -> CoverageReport:
    """How the platform covers a command's model by all that is known, its gaps ranked by the other models that they hold up."""
    with recorded_plane(settings) as plane:
        _tell(settings, work, plane, options)
        report = prestaging.coverage(work.bench, work.lease, options).noun
        if plane is None:
            return report
        return with_models(report, lacking(plane.catalog, plane.ledger, report.platform, model_name(work.release)))


def _tell(settings: Settings, work: LocalWork, plane: Plane | None, options: TraceOptions) -> None:
    profile = prestaging.subject_of(work.bench, work.lease).profile
    tell_manifest(work.bench.ledger, settings, profile, plane.ledger if plane else None)
    if plane is not None:
        _tell_bridges(work, plane.ledger, options)
