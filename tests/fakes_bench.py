"""A bench for steps: the real in-memory ledger, and fakes of everything that would start a process or open a socket."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from checkpoints import SMOLLM2, index_for
from dayzero.adapters.conversion.sealing import SealedFolders
from dayzero.adapters.store.memory_ledger import MemoryLedger
from dayzero.app import taxonomy
from dayzero.domain.adaptation import Adaptation, AdaptationState, Lease, Purpose
from dayzero.domain.entry import CompatibilityEntry, DayZeroClock
from dayzero.domain.operators import GraphUse, OperatorManifest, OperatorSupport, Phase, SupportKind, Trace, TraceOptions
from dayzero.domain.planning import Degrees
from dayzero.domain.platforms import PlatformProfile, Stack
from dayzero.domain.precision_policy import PrecisionPolicy
from dayzero.domain.release import FileRole, HubKind, Release, ReleaseStage, RepoFile, content_id_of
from dayzero.domain.runs import RunEnd, RunLimits, RunOutcome, RunRequest
from dayzero.domain.shards import Integrity, ShardManifest, ShardSource
from dayzero.domain.transfers import TransferEstimate
from dayzero.domain.verdict import Grade, Mode
from dayzero.domain.waivers import Waiver
from dayzero.errors import DayzeroError, NotFoundError, UnavailableError
from dayzero.ports.hub import Hub, Progress
from dayzero.steps.contract import Bench
from store_nouns import SteppedClock

PLATFORM = "cpu"
GIB = 2**30
STACK = Stack(PLATFORM, {"torch": "2.13"})


def checkpoint(config: dict[str, object]) -> tuple[bytes, int]:
    """The head of a one-file checkpoint (length and header) and the size of the whole file."""
    index = index_for(config)
    begin = min(tensor.begin for tensor in index.tensors)
    rows = {
        tensor.name: {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [tensor.begin - begin, tensor.end - begin],
        }
        for tensor in index.tensors
    }
    header = json.dumps(rows).encode()
    head = len(header).to_bytes(8, "little") + header
    return head, len(head) + index.weight_bytes


@dataclass
class FakeHub:
    """Files in memory; `broken` is raised by every read. `reads` counts them."""

    contents: Mapping[str, bytes]
    broken: DayzeroError | None = None
    reads: int = 0

    def read_small(self, release: Release, path: str, max_bytes: int) -> bytes:
        self.reads += 1
        if self.broken:
            raise self.broken
        return self.contents[path]

    def read_range(self, release: Release, path: str, begin: int, end: int) -> bytes:
        self.reads += 1
        return self.contents[path][begin:end].ljust(end - begin, b"\0")


@dataclass
class FakeTracer:
    """Answers with these uses, or raises `failing`; `traced` counts the calls."""

    failing: DayzeroError | None = None
    uses: tuple[GraphUse, ...] = (
        GraphUse("aten.mm.default", ("bfloat16",), "8x72,72x72", Phase.PREFILL, 12, ("model.layers.*.mlp",), 1000, 10),
    )
    traced: int = 0

    def trace(self, config: bytes, *, timeout_s: float, options: TraceOptions | None = None) -> Trace:
        self.traced += 1
        if self.failing:
            raise self.failing
        return Trace(self.uses, {}, "transformers 5.24")


@dataclass
class FakeRunner:
    """Every run ends as `outcome` says; `ran` keeps what was asked."""

    outcome: RunOutcome
    ran: list[RunRequest] = field(default_factory=list)

    def stack(self) -> Stack:
        return STACK

    def run(self, request: RunRequest, limits: RunLimits) -> RunOutcome:
        self.ran.append(request)
        return self.outcome


@dataclass
class FakeImages:
    """An engine that builds this digest, or raises `failing`; `built` keeps the files of each context."""

    digest: str = "sha256:" + "a" * 64
    failing: DayzeroError | None = None
    built: list[set[str]] = field(default_factory=list)

    def build(self, context: Path, tag: str) -> str:
        self.built.append({path.relative_to(context).as_posix() for path in context.rglob("*") if path.is_file()})
        if self.failing:
            raise self.failing
        return self.digest


class FakeTransfer:
    """Moves nothing: shards come out with digests of their names, their sources with the stated ones."""

    def __init__(self) -> None:
        self.fetched: list[Path] = []

    def fetch(self, hub: Hub, release: Release, into: Path, progress: Progress | None) -> Path:
        self.fetched.append(into)
        return into

    def estimate(self, hub: Hub, release: Release, into: Path) -> TransferEstimate:
        return TransferEstimate(str(release.ref), release.weight_bytes(), release.weight_bytes())

    def shard(
        self,
        model_dir: Path,
        layout: ShardManifest,
        into: Path,
        progress: Progress | None,
        *,
        integrity: Integrity = Integrity.SHA256,
        stated: Mapping[str, str] | None = None,
        beside: Sequence[str] = (),
    ) -> ShardManifest:
        files = (replace(file, digest=hashlib.sha256(file.path.encode()).hexdigest()) for file in layout.files)
        known = stated or {}
        sources = (ShardSource(path, 1, known.get(path), path in known) for path in layout.source_files)
        return replace(layout, files=tuple(files), sources=tuple(sources))

    def verify(self, shards_dir: Path, progress: Progress | None) -> ShardManifest:
        raise NotFoundError(f"nothing was written to {shards_dir}.")


class FakeCatalog:
    """Keeps how attempts were finished."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self.ledger = ledger
        self.entries: list[CompatibilityEntry | None] = []
        self.told: tuple[Waiver, ...] = ()

    def waivers(self) -> Sequence[Waiver]:
        return self.told

    def clock_of(self, adaptation_id: str) -> DayZeroClock:
        return DayZeroClock()

    def finish(self, lease: Lease, state: AdaptationState, reason: str | None, entry: CompatibilityEntry | None) -> Adaptation:
        self.entries.append(entry)
        return self.ledger.finish(lease, state, reason)


def ended(end: RunEnd, reason: str = "it went wrong", log: str = "last words") -> RunOutcome:
    return RunOutcome(end, b"", reason, log, 1.0, None)


@dataclass
class Made:
    """A bench with its parts at hand."""

    bench: Bench
    lease: Lease
    ledger: MemoryLedger
    hub: FakeHub
    tracer: FakeTracer
    runner: FakeRunner
    images: FakeImages
    transfer: FakeTransfer
    catalog: FakeCatalog
    release: Release


def make_bench(
    folder: Path,
    config: dict[str, object] | bytes = SMOLLM2,
    *,
    weights: str | None = "model.safetensors",
    tracer: FakeTracer | None = None,
    outcome: RunOutcome | None = None,
    degrees: Degrees | None = None,
    devices: int = 2,
    told: bool = True,
    purpose: Purpose = Purpose.ADAPT,
    allow_remote_code: tuple[str, ...] = (),
    images: FakeImages | None = None,
    policy: PrecisionPolicy | None = None,
) -> Made:
    """A claimed adaptation of acme/tiny on cpu, and everything that its steps need."""
    text = config if isinstance(config, bytes) else json.dumps(config).encode()
    contents = {"config.json": text}
    files = [RepoFile("config.json", len(text), FileRole.CONFIGURATION, hashlib.sha256(text).hexdigest())]
    if weights is not None:
        head, size_bytes = checkpoint(SMOLLM2)
        contents[weights] = head
        files.append(RepoFile(weights, size_bytes, FileRole.WEIGHTS, "b" * 64))
    stage = ReleaseStage.CONFIG if weights is None else ReleaseStage.WEIGHTS
    release = Release(HubKind.HUGGING_FACE, "acme/tiny", "c" * 40, stage, tuple(files), content_id_of(files))
    clock = SteppedClock()
    adaptation = Adaptation(
        "adaptation-1", purpose, "release-1", release.content_id, "acme/tiny", PLATFORM, Mode.INFERENCE,
        AdaptationState.REQUESTED, 0, clock.now(), policy=policy,
    )  # fmt: skip
    ledger = MemoryLedger(release, adaptation, folder / "artifacts", clock)
    lease = ledger.claim(adaptation.id, 1, "the test")
    if told:
        support = OperatorSupport("aten.mm.default", SupportKind.NATIVE, Grade.DECLARED)
        ledger.put_manifest(OperatorManifest(PLATFORM, "torch", "2.13", (support,)), STACK)
    made = Made(
        bench=None,  # type: ignore[arg-type]  # set below, over the other parts
        lease=lease,
        ledger=ledger,
        hub=FakeHub(contents),
        tracer=tracer or FakeTracer(),
        runner=FakeRunner(outcome or ended(RunEnd.CRASHED)),
        images=images or FakeImages(failing=UnavailableError("no container engine answers.")),
        transfer=FakeTransfer(),
        catalog=FakeCatalog(ledger),
        release=release,
    )
    profile = PlatformProfile(PLATFORM, "CPU", "cpu", dtypes=("float32", "bfloat16"))
    made.bench = Bench(
        ledger=ledger,
        hub_of=lambda _: made.hub,  # type: ignore[arg-type,return-value]  # what steps read of a hub is there
        tracer=made.tracer,
        runner=made.runner,
        transfer=made.transfer,
        conversions=SealedFolders(),
        images=made.images,
        clock=clock,
        profiles={PLATFORM: profile},
        work_dir=folder / "work",
        limits=RunLimits(60.0, 8 * GIB),
        devices=devices,
        taxonomy=taxonomy(),
        library="transformers 5.24",
        degrees=degrees,
        allow_remote_code=allow_remote_code,
    )
    return made
