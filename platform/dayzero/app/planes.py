"""The wiring: settings and adapters become planes and benches."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.resources import files

from dayzero.adapters.host.clock import SystemClock
from dayzero.adapters.host.memory import memory_limit_bytes
from dayzero.adapters.images.builder import DockerImageBuilder
from dayzero.adapters.operators.library import SubprocessLibrary
from dayzero.adapters.profiles.load import choose_profile, load_profiles
from dayzero.adapters.remote.ledger import HttpLedger
from dayzero.adapters.runners.isolated import SubprocessRunner
from dayzero.adapters.store.artifacts import FolderArtifacts
from dayzero.adapters.store.catalog import SqlCatalog
from dayzero.adapters.store.compatibility import SqlCompatibilityList
from dayzero.adapters.store.connection import open_engine
from dayzero.adapters.store.embedded import has_database, running
from dayzero.adapters.store.ledger import SqlLedger
from dayzero.adapters.store.migrate import upgrade
from dayzero.adapters.store.outbox import SqlOutbox
from dayzero.adapters.store.subscribers import SqlSubscribers
from dayzero.adapters.store.watch_book import SqlWatchBook
from dayzero.adapters.store.workforce import SqlWorkforce
from dayzero.adapters.trace.known import library_name
from dayzero.adapters.trace.tracer import SubprocessTracer
from dayzero.adapters.transfer.weights import WeightTransfer
from dayzero.app.hubs import hub_of
from dayzero.domain.canonical import digest
from dayzero.domain.operators import OperatorManifest
from dayzero.domain.platforms import PlatformProfile, Stack
from dayzero.domain.runs import RunLimits
from dayzero.errors import BadInputError
from dayzero.ports.catalog import Catalog, CompatibilityList, Outbox, Subscribers, WatchBook, Workforce
from dayzero.ports.hub import ArtifactStore
from dayzero.ports.ledger import Ledger
from dayzero.ports.running import Clock
from dayzero.registry import DEVICE_GROUP, plugin_names
from dayzero.settings import Settings
from dayzero.stages.taxonomy import Taxonomy, parse_taxonomy
from dayzero.steps.contract import Bench


@dataclass(frozen=True, slots=True)
class Plane:
    """The control plane: everything that needs the database."""

    settings: Settings
    clock: Clock
    ledger: Ledger
    catalog: Catalog
    watchbook: WatchBook
    outbox: Outbox
    subscribers: Subscribers
    compatibility: CompatibilityList
    workforce: Workforce
    artifacts: ArtifactStore
    profiles: Mapping[str, PlatformProfile]


def database_exists(settings: Settings) -> bool:
    """Whether there is a database to ask: a configured server, or an embedded one that was made before."""
    return settings.database_url is not None or has_database(settings.data_dir)


@contextmanager
def database_url(settings: Settings) -> Iterator[str]:
    """The URL of the database: the configured server, or the embedded one, kept running meanwhile."""
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value()
        return
    with running(settings.data_dir) as url:
        yield url


@contextmanager
def control_plane(settings: Settings) -> Iterator[Plane]:
    """The control plane on its database, migrated to the schema that this version needs."""
    with database_url(settings) as url:
        upgrade(url)
        engine = open_engine(url)
        clock = SystemClock()
        artifacts = FolderArtifacts(settings.data_dir / "artifacts")
        try:
            yield Plane(
                settings=settings,
                clock=clock,
                ledger=SqlLedger(engine, clock, artifacts),
                catalog=SqlCatalog(engine, clock),
                watchbook=SqlWatchBook(engine, clock),
                outbox=SqlOutbox(engine, clock),
                subscribers=SqlSubscribers(engine, clock),
                compatibility=SqlCompatibilityList(engine, clock),
                workforce=SqlWorkforce(engine, clock),
                artifacts=artifacts,
                profiles=load_profiles(settings.platforms_dir),
            )
        finally:
            engine.dispose()


def taxonomy() -> Taxonomy:
    """The shipped operator taxonomy."""
    return parse_taxonomy(files("dayzero.platforms").joinpath("taxonomy.toml").read_text(encoding="utf-8"))


def bench_on(ledger: Ledger, settings: Settings) -> Bench:
    """A bench of this host's adapters around a ledger."""
    work_dir = settings.data_dir.resolve() / "work"
    memory_bytes = settings.check_memory_bytes or memory_limit_bytes()
    return Bench(
        ledger=ledger,
        hub_of=lambda release: hub_of(release, settings),
        tracer=SubprocessTracer(),
        runner=SubprocessRunner(work_dir / "runs", compile_cache=settings.compile_cache),
        transfer=WeightTransfer(),
        images=DockerImageBuilder(),
        clock=SystemClock(),
        profiles=load_profiles(settings.platforms_dir),
        work_dir=work_dir,
        limits=RunLimits(timeout_s=settings.check_timeout_s, memory_bytes=memory_bytes),
        devices=settings.cpu_devices,
        taxonomy=taxonomy(),
        library=library_name(),
        operator_plugins=settings.operator_plugins,
        allow_remote_code=settings.allow_remote_code,
        allow_pickle=settings.allow_pickle,
        compile_target=settings.compile_target,
    )


def control_bench(plane: Plane) -> Bench:
    """The bench of the control plane's own steps."""
    return bench_on(plane.ledger, plane.settings)


def worker_bench(settings: Settings) -> Bench:
    """A worker's bench: its ledger is the control plane's, over HTTP; it knows no database."""
    if settings.ledger_url is None or settings.worker_token is None:
        raise BadInputError(
            "this worker does not know its control plane.",
            remedy="Set DAYZERO_LEDGER_URL and DAYZERO_WORKER_TOKEN, or run `dayzero worker join`.",
        )
    ledger = HttpLedger(settings.ledger_url, settings.worker_token.get_secret_value())
    return bench_on(ledger, settings)


def is_here(profile: PlatformProfile) -> bool:
    """Whether this host can run that platform: it is its processor, or a plugin of the device is installed."""
    return profile.torch_device == "cpu" or profile.torch_device in plugin_names(DEVICE_GROUP)


def stack_here(settings: Settings, profile: PlatformProfile) -> Stack:
    """What is installed here for the platform; what a device was told of itself is a part of it."""
    stack = SubprocessRunner(settings.data_dir / "work" / "runs", platform_slug=profile.slug).stack()
    if profile.device is None:
        return stack
    return replace(stack, components={**stack.components, "device": digest(profile.device)})


def manifest_probe(settings: Settings, profile: PlatformProfile) -> tuple[OperatorManifest, Stack]:
    """What this host's stack offers for a platform that is here: read from the installed torch, or asked of the device."""
    stack = stack_here(settings, profile)
    library = SubprocessLibrary(device=profile.torch_device or "cpu", platform=profile.slug, told=profile.device)
    return library.manifest(), stack


def profiles(settings: Settings) -> Mapping[str, PlatformProfile]:
    """Every known platform by slug."""
    return load_profiles(settings.platforms_dir)


def known_platform(settings: Settings, slug: str) -> PlatformProfile:
    """The profile of that slug; BadInputError lists what is known."""
    return choose_profile(load_profiles(settings.platforms_dir), slug)
