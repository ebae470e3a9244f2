"""What platforms offer: manifests imported from published packages, and what the ledger knows."""

from dataclasses import dataclass, replace
from pathlib import Path

from dayzero.adapters.host.installed import installed_version
from dayzero.adapters.operators.library import SubprocessLibrary
from dayzero.adapters.packages.index import Requirement, fetch_wheel, parse_requirement
from dayzero.adapters.packages.read import read_wheel
from dayzero.adapters.profiles.load import new_profile, read_profile
from dayzero.app.benches import taxonomy
from dayzero.app.planes import recorded_plane
from dayzero.domain.findings import Finding
from dayzero.domain.manifests import ManifestDifference, ManifestOrigin
from dayzero.domain.operators import OperatorManifest
from dayzero.domain.platforms import PlatformProfile, Stack
from dayzero.errors import BadInputError, DependencyError
from dayzero.ports.ledger import Ledger
from dayzero.settings import Settings
from dayzero.stages.coverage.manifests import difference, manifest_of, published_stack
from dayzero.stages.memory.error import ModelError
from dayzero.stages.platforms.check import examine_profile
from dayzero.steps.measuring import error_on

INSTALLED_TORCH = "torch"
"""The name that stands for the dispatcher of the torch that is installed here."""


def new_platform(settings: Settings, slug: str, torch_device: str, out: Path | None) -> Path:
    """Write a template for a platform of one's own, into the folder of profiles unless `out` says otherwise."""
    path = out or (settings.platforms_dir or Path()) / f"{slug}.toml"
    new_profile(slug, torch_device, path)
    return path


def check_platform(settings: Settings, file: Path) -> tuple[PlatformProfile, tuple[Finding, ...]]:
    """A profile's file as it would be loaded, and what looks wrong or is missing in it."""
    profile = read_profile(file, settings.platforms_dir)
    return profile, examine_profile(profile)


@dataclass(frozen=True, slots=True)
class Imported:
    """An imported manifest, and what changed since the release that it was compared with (None: with none)."""

    manifest: OperatorManifest
    difference: ManifestDifference | None


def read_import(settings: Settings, profile: PlatformProfile, package: str, other_version: str | None) -> Imported:
    """What a published package declares for the platform. `package`: NAME, NAME==VERSION, a wheel's path, or `torch`.

    Nothing is recorded yet. BadInputError: no such package, not one that can be read, or not for this platform.
    """
    if package == INSTALLED_TORCH and other_version is None:
        return Imported(installed_torch(profile), None)
    manifest = _published(settings, profile, package)
    if other_version is None:
        return Imported(manifest, None)
    name = manifest.provider if package.endswith(".whl") else parse_requirement(package).name
    return Imported(manifest, difference(_published(settings, profile, f"{name}=={other_version}"), manifest))


def _published(settings: Settings, profile: PlatformProfile, package: str) -> OperatorManifest:
    path = Path(package) if package.endswith(".whl") else fetch_wheel(_required(package), settings.data_dir / "packages")
    tables = read_wheel(path, taxonomy(), profile.vendor)
    if tables.device is not None and tables.device != profile.torch_device:
        raise BadInputError(
            f"{tables.library} is for torch device {tables.device}, and {profile.slug} is {profile.torch_device or 'unknown'}.",
            remedy="Name a platform of that device: dayzero platform ls",
        )
    return manifest_of(tables, taxonomy(), profile)


def _required(package: str) -> Requirement:
    required = parse_requirement(package)
    if required.name == INSTALLED_TORCH:
        raise BadInputError("torch is read as it is installed here, not as a package.", remedy="Write `torch` alone.")
    return required


def installed_torch(profile: PlatformProfile) -> OperatorManifest:
    """What the installed torch brings for the platform's device; DependencyError without torch."""
    if profile.torch_device is None:
        raise BadInputError(f"the profile of {profile.slug} states no torch_device.", remedy="Add it to the profile.")
    return SubprocessLibrary(device=profile.torch_device, platform=profile.slug).manifest()


def record_import(ledger: Ledger, profile: PlatformProfile, manifest: OperatorManifest) -> tuple[str, ...]:
    """Record the manifest, and with graph operators also what torch makes of others there; returns what could not be told."""
    ledger.put_manifest(manifest, published_stack(manifest))
    if manifest.origin is not ManifestOrigin.PACKAGE or not manifest.operators:
        return ()
    version = installed_version(INSTALLED_TORCH)
    if version is None or profile.torch_device is None:
        return ("torch is not installed here: which operators it makes of others is unknown",)
    known = ledger.manifest(profile.slug)
    if known is not None and known[1].components.get(INSTALLED_TORCH) == version:
        return ()
    try:
        composites = installed_torch(profile)
    except DependencyError as error:
        return (str(error),)
    ledger.put_manifest(composites, published_stack(replace(composites, version=version)))
    return ()


@dataclass(frozen=True, slots=True)
class PlatformRecord:
    """What the database says of a platform: what it offers (None: nobody told), and how far predicted memory was off in the
    runs on it (None: no run was measured)."""

    offered: tuple[OperatorManifest, Stack] | None = None
    memory_error: ModelError | None = None


def recorded_of(settings: Settings, slug: str) -> PlatformRecord:
    """What the database says of the platform; nothing when there is none yet."""
    with recorded_plane(settings) as plane:
        if plane is None:
            return PlatformRecord()
        return PlatformRecord(plane.ledger.manifest(slug), error_on(plane.catalog, plane.ledger, slug))
