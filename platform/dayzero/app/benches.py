"""The wiring of benches: settings and this host's adapters, around any ledger; no database."""

from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files

from dayzero.adapters.conversion.sealing import SealedFolders
from dayzero.adapters.host.clock import SystemClock
from dayzero.adapters.host.memory import memory_limit_bytes
from dayzero.adapters.images.builder import DockerImageBuilder
from dayzero.adapters.operators.library import SubprocessLibrary
from dayzero.adapters.profiles.load import choose_profile, load_profiles
from dayzero.adapters.runners.isolated import SubprocessRunner
from dayzero.adapters.trace.known import library_name
from dayzero.adapters.trace.tracer import SubprocessTracer
from dayzero.adapters.transfer.weights import WeightTransfer
from dayzero.app.hubs import store_of, stored_hub
from dayzero.app.stacks import HostStacks
from dayzero.app.vouching import witness
from dayzero.domain.canonical import digest
from dayzero.domain.operators import OperatorManifest
from dayzero.domain.platforms import PlatformProfile, Stack
from dayzero.domain.runs import RunLimits
from dayzero.errors import BadInputError
from dayzero.ports.ledger import Ledger
from dayzero.ports.running import Tracer
from dayzero.registry import DEVICE_GROUP, plugin_names
from dayzero.settings import Settings
from dayzero.stages.inventory.taxonomy import Taxonomy, parse_taxonomy
from dayzero.steps.contract import Bench


def taxonomy() -> Taxonomy:
    """The shipped operator taxonomy."""
    return parse_taxonomy(files("dayzero.platforms").joinpath("taxonomy.toml").read_text(encoding="utf-8"))


def bench_on(ledger: Ledger, settings: Settings, tracer: Tracer | None = None) -> Bench:
    """A bench of this host's adapters around a ledger."""
    work_dir = settings.data_dir.resolve() / "work"
    store = store_of(settings)
    memory_bytes = settings.check_memory_bytes or memory_limit_bytes()
    return Bench(
        ledger=ledger,
        hub_of=lambda release: stored_hub(release, settings, store),
        tracer=tracer or SubprocessTracer(),
        runner=SubprocessRunner(work_dir / "runs", compile_cache=settings.compile_cache),
        transfer=WeightTransfer(
            settings.data_dir.resolve() / "rates.json",
            settings.hub_bytes_per_s,
            settings.hub_connections,
            settings.checkpoint_bytes,
            store,
        ),
        conversions=SealedFolders(),
        images=DockerImageBuilder(),
        clock=SystemClock(),
        profiles=load_profiles(settings.platforms_dir),
        work_dir=work_dir,
        models_dir=store.folder.models,
        limits=RunLimits(timeout_s=settings.check_timeout_s, memory_bytes=memory_bytes),
        devices=settings.cpu_devices,
        taxonomy=taxonomy(),
        library=library_name(),
        witness=lambda release, layout: witness(settings, release, layout),
        approve_below_bytes=settings.approve_below_bytes,
        stacks=HostStacks(settings),
        operator_plugins=settings.operator_plugins,
        allow_remote_code=settings.allow_remote_code,
        allow_pickle=settings.allow_pickle,
        compile_target=settings.compile_target,
        tasks=settings.tasks,
        layers_from=settings.layers_from,
    )


def worker_bench(settings: Settings) -> Bench:
    """A worker's bench: its ledger is the control plane's, over HTTP; it knows no database."""
    if settings.ledger_url is None or settings.worker_token is None:
        raise BadInputError(
            "this worker does not know its control plane.",
            remedy="Set DAYZERO_LEDGER_URL and DAYZERO_WORKER_TOKEN, or run `dayzero worker join`.",
        )
    from dayzero.adapters.remote.ledger import HttpLedger

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
