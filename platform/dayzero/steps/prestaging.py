"""Steps that need no weights: structure, operator inventory, coverage and a first plan."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from dayzero.domain.adaptation import Adaptation, Lease, Purpose
from dayzero.domain.architecture import ModelSpec
from dayzero.domain.bridges import Bridge
from dayzero.domain.findings import Finding
from dayzero.domain.operators import CoverageReport, KernelUse, OperatorInventory, OperatorManifest, Trace, TraceOptions
from dayzero.domain.platforms import PlatformProfile
from dayzero.domain.release import FileRole, Release, RepoFile
from dayzero.domain.reports import StepReport
from dayzero.domain.results import result_key
from dayzero.domain.tensors import CheckpointIndex
from dayzero.domain.verdict import Check, CheckLayer, Grade, Verdict
from dayzero.errors import (
    BadInputError,
    BlockedError,
    DayzeroError,
    DependencyError,
    MeasurementError,
    NotFoundError,
    NotShardedError,
)
from dayzero.registry import settings_for
from dayzero.stages.configuration.quantization import MAX_SIDE_BYTES, SIDE_FILE
from dayzero.stages.coverage.bridging import verified
from dayzero.stages.coverage.covering import cover, with_exclusions
from dayzero.stages.entries.deciding import coverage_check
from dayzero.stages.failures.foretelling import foretold, sentence
from dayzero.stages.inventory.taking import inventory_of
from dayzero.stages.judging.same_code import SAME_CODE, as_same_code
from dayzero.stages.platforms.sampled import as_told
from dayzero.stages.structure.reading import read_spec
from dayzero.stages.structure.summary import structure_rows
from dayzero.steps.bridges import keys_for, known_bridges, with_reasons
from dayzero.steps.contract import Bench
from dayzero.steps.keeping import Kept, keep
from dayzero.steps.stacks import Stacked, stacked
from dayzero.steps.waiting import no_manifest

MAX_CONFIG_BYTES = 8 * 2**20
TRACE_TIMEOUT_S = 600.0
KV_DTYPE = "bfloat16"
"""The dtype that a cache is counted in unless another is asked for."""

COVERAGE = "operators.coverage"

NO_REFERENCE = "trace.no_reference"
"""Finding: the modelling library knows no such architecture, or refuses this configuration of it."""

USUAL = TraceOptions()
"""What every pipeline traces."""

NOT_TRACED = "trace.unavailable"
"""Finding: tracing failed or could not be tried here; another time it may succeed."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """A release's config.json as text, the digest the hub states for it, and its quantization side file where it has one."""

    text: str
    digest: str
    side: str | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """What a step works on: the adaptation, its release, and the profile of its platform."""

    adaptation: Adaptation
    release: Release
    profile: PlatformProfile


def subject_of(bench: Bench, lease: Lease) -> Subject:
    """The adaptation behind a lease, its release and platform; NotFoundError for a platform without a profile."""
    adaptation = bench.ledger.adaptation(lease.adaptation_id)
    profile = bench.profiles.get(adaptation.platform)
    if profile is None:
        raise NotFoundError(
            f"platform {adaptation.platform} has no profile.",
            remedy="Known ones: " + ", ".join(sorted(bench.profiles)) + "; add yours to DAYZERO_PLATFORMS_DIR.",
        )
    return Subject(adaptation, bench.ledger.release(adaptation.release_id), profile)


def config_file(release: Release) -> RepoFile:
    """The release's config.json; BadInputError when it has none."""
    for file in release.files:
        if file.role is FileRole.CONFIGURATION and file.path == "config.json":
            return file
    raise BadInputError(
        f"{release.repo_id} at {release.revision[:12]} has no config.json, so its architecture is unknown.",
        remedy="Publish a configuration, or announce one with `dayzero announce`.",
    )


def configuration(bench: Bench, lease: Lease) -> Kept[Configuration]:
    """The configuration's text, read from the hub once."""
    release = subject_of(bench, lease).release
    file = config_file(release)
    side = next((other for other in release.files if other.path == SIDE_FILE), None)
    stated = [(one.path, one.sha256 or one.git_blob_id or "", one.size_bytes) for one in (file, side) if one is not None]

    def read() -> Configuration:
        beside = None if side is None else _text(bench, release, side, MAX_SIDE_BYTES)
        return Configuration(_text(bench, release, file, MAX_CONFIG_BYTES), stated[0][1], beside)

    return keep(bench.ledger, lease, result_key("configuration", 2, stated), Configuration, read)


def _text(bench: Bench, release: Release, file: RepoFile, limit_bytes: int) -> str:
    data = bench.hub_of(release).read_small(release, file.path, limit_bytes)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInputError(f"{file.path} of {release.repo_id} is not UTF-8 text.") from error


def structure_of(config: Configuration, index: CheckpointIndex | None, kv_dtype: str) -> ModelSpec:
    """The structure from what a release says of itself, with its tensor headers where they were read."""
    side = None if config.side is None else config.side.encode()
    return read_spec(config.text.encode(), index, side=side, kv_dtype=kv_dtype)


def structure(bench: Bench, lease: Lease, kv_dtype: str = KV_DTYPE) -> Kept[ModelSpec]:
    """The model's structure from its configuration alone; BadInputError names the release."""
    config = configuration(bench, lease).noun
    release = subject_of(bench, lease).release

    def read() -> ModelSpec:
        with about(release):
            return structure_of(config, None, kv_dtype)

    key = result_key("structure", 2, config.text, config.side or "", *other_than_usual(kv_dtype))
    return keep(bench.ledger, lease, key, ModelSpec, read)


def other_than_usual(kv_dtype: str) -> tuple[str, ...]:
    """What a cache's dtype adds to the key of a structure: nothing for the one that every pipeline takes."""
    return () if kv_dtype == KV_DTYPE else (kv_dtype,)


@contextmanager
def about(release: Release) -> Iterator[None]:
    """Whatever the release's own files are refused for names the release."""
    try:
        yield
    except BadInputError as error:
        named = f"{release.ref}: {error.message}"
        raise type(error)(named, remedy=error.remedy, retry_after_s=error.retry_after_s) from error


def inventory(bench: Bench, lease: Lease, options: TraceOptions = USUAL) -> Kept[OperatorInventory]:
    """The operators the model needs; the graph level is unknown, with a finding, where the code cannot be run.

    BadInputError when a degree is asked for that the library cannot shard the model by.
    """
    config = configuration(bench, lease).noun
    spec = structure(bench, lease).noun
    stack = stacked(bench, lease, config.text)
    unusual = (*(() if options == USUAL else (options,)), *((stack.said,) if stack.said else ()))
    lasting = result_key("inventory", 3, config.text, config.side or "", stack.library, bench.taxonomy, *unusual)
    # What failed to run may run the next time: such an inventory is found again by its own attempt alone.
    passing = result_key("inventory", 1, lasting, lease)
    for key in (lasting, passing):
        if bench.ledger.find_result(key) is not None:
            return keep(bench.ledger, lease, key, OperatorInventory, lambda: inventory_of(spec, None, bench.taxonomy))
    trace, finding = _trace(stack, config.text, spec, options)
    found = inventory_of(spec, trace, bench.taxonomy)
    noted = replace(found, findings=(*found.findings, finding)) if finding else found
    key = passing if finding and finding.code == NOT_TRACED else lasting
    return keep(bench.ledger, lease, key, OperatorInventory, lambda: noted)


def _trace(stack: Stacked, config: str, spec: ModelSpec, options: TraceOptions) -> tuple[Trace | None, Finding | None]:
    """The trace, and what there is to say about it; a type that no stack's library knows is traced as its known equal."""
    subject = spec.model_type or "model"
    try:
        tracer = stack.tracer()
    except DayzeroError as error:
        return None, Finding(NOT_TRACED, subject, str(error))
    try:
        try:
            return tracer.trace(config.encode(), timeout_s=TRACE_TIMEOUT_S, options=options), None
        except BlockedError:
            same = as_same_code(config)
            if same is None:
                raise
            return tracer.trace(same[0].encode(), timeout_s=TRACE_TIMEOUT_S, options=options), same[1]
    except NotShardedError:
        raise
    except (BlockedError, BadInputError) as error:
        return None, Finding(NO_REFERENCE, subject, f"{error}{stack.said}")
    except (DependencyError, MeasurementError) as error:
        return None, Finding(NOT_TRACED, subject, str(error))


def require_reference(bench: Bench, lease: Lease) -> None:
    """BlockedError for a model that the modelling library cannot build: there is nothing to hold a target against.

    What could not be traced for another reason passes: whether it runs shows when it is run. Code of the repository's own is
    no reference, allowed or not: there is no container yet that could run it.
    """
    release = subject_of(bench, lease).release
    for finding in inventory(bench, lease).noun.findings:
        if finding.code in (NO_REFERENCE, SAME_CODE):
            raise BlockedError(f"no reference implementation of {release.ref}: {finding.message}")


def coverage(bench: Bench, lease: Lease, options: TraceOptions = USUAL) -> Kept[CoverageReport]:
    """How the platform's operator library covers the inventory; BlockedError when no worker told what it offers."""
    subject = subject_of(bench, lease)
    needed = inventory(bench, lease, options).noun
    manifest = _offered(bench, subject)
    if manifest is None:
        raise no_manifest(subject.profile.slug)
    bare = cover(needed, manifest)
    bridges = _known(bench, lease, subject, needed, bare)
    key = result_key("coverage", 2, needed, manifest, *((bridges,) if bridges else ()))

    def covered() -> CoverageReport:
        return with_reasons(cover(needed, manifest, custom=verified(bridges)), bridges) if bridges else bare

    return keep(bench.ledger, lease, key, CoverageReport, covered)


def _offered(bench: Bench, subject: Subject) -> OperatorManifest | None:
    """What the platform offers, less what its profile excludes; None before anybody told."""
    told = bench.ledger.manifest(subject.profile.slug)
    return None if told is None else with_exclusions(as_told(told[0]), subject.profile.excluded_operators)


def bridges_for(bench: Bench, lease: Lease) -> tuple[Bridge, ...]:
    """What is known of bridges for the gaps of the adaptation's model on its platform, refusals included."""
    subject = subject_of(bench, lease)
    manifest = _offered(bench, subject)
    if manifest is None:
        return ()
    needed = inventory(bench, lease).noun
    return _known(bench, lease, subject, needed, cover(needed, manifest))


def settled_bridges(bench: Bench, lease: Lease) -> tuple[Bridge, ...]:
    """`bridges_for` once the bridging step is over: asked for once an attempt, for every observation runs with them."""
    if lease not in bench.settled:
        bench.settled[lease] = bridges_for(bench, lease)
    return bench.settled[lease]


def _known(bench: Bench, lease: Lease, subject: Subject, needed: OperatorInventory, bare: CoverageReport) -> tuple[Bridge, ...]:
    """Bridges by the gaps that there are without any."""
    plugins = settings_for(subject.adaptation.model, bench.operator_plugins)
    return known_bridges(bench, lease, keys_for(bench, subject.profile, bare, needed, plugins))


def structure_step(bench: Bench, lease: Lease) -> StepReport:
    """Read the structure and say what it is."""
    kept = structure(bench, lease)
    return structure_report(kept.noun, reused=kept.reused)


def structure_report(spec: ModelSpec, *, reused: bool) -> StepReport:
    """What a structure is, for people."""
    parameters = spec.parameters
    total = f"{parameters.total_language:,} parameters" if parameters.total_language is not None else "parameters unknown"
    return StepReport(
        "structure",
        f"{spec.architecture or 'unknown architecture'}: {len(spec.layers)} layers, {total}",
        reused,
        structure_rows(spec),
        tuple(finding.message for finding in spec.findings),
    )


def inventory_step(bench: Bench, lease: Lease) -> StepReport:
    """Take the operator inventory and say how large it is."""
    kept = inventory(bench, lease)
    return inventory_report(kept.noun, reused=kept.reused)


def inventory_report(found: OperatorInventory, *, reused: bool) -> StepReport:
    """What an inventory holds, for people: the operators that compute or move the most, then collectives."""
    names = {use.name for use in found.graph}
    headline = f"{len(found.kernels)} kernel-level operators; {len(names)} graph operators in {len(found.graph)} uses"
    whole = [use for use in found.graph if use.part_of is None]
    rows: list[dict[str, str | int | float | None]] = [
        {"operator": use.name, "phase": use.phase.value, "calls": use.count, "flops": use.flops, "bytes": use.bytes_moved}
        for use in sorted(whole, key=lambda use: (-(use.flops or 0), -(use.bytes_moved or 0)))[:25]
    ]
    rows += [
        {
            "operator": f"{use.name} at tp {use.tp}",
            "phase": use.phase.value,
            "calls": use.count,
            "flops": None,
            "bytes": use.message_bytes,
        }
        for use in found.collectives
    ]
    if not found.graph:
        rows = [{"operator": use.name, "layers": use.layers, "figures": _words(use)} for use in found.kernels]
    return StepReport("inventory", headline, reused, tuple(rows), tuple(finding.message for finding in found.findings))


def _words(kernel: KernelUse) -> str:
    return ", ".join(f"{name} {value}" for name, value in kernel.constraints.items())


def coverage_step(bench: Bench, lease: Lease) -> StepReport:
    """Compare inventory and manifest and name the gaps. A pre-stage goes on without a manifest: its coverage is not_run."""
    try:
        kept = coverage(bench, lease)
    except BlockedError as error:
        if bench.ledger.adaptation(lease.adaptation_id).purpose is not Purpose.PRESTAGE:
            raise
        check = Check(CheckLayer.OPERATOR_COVERAGE, COVERAGE, "tp1", Verdict.NOT_RUN, Grade.PREDICTED, str(error))
        bench.ledger.put_check(check, lease)
        return StepReport("coverage", f"not_run: {error}", verdict=Verdict.NOT_RUN)
    report = coverage_report(kept.noun, reused=kept.reused)
    return replace(report, notes=(*report.notes, *foreseen(bench, lease)))


def foreseen(bench: Bench, lease: Lease) -> tuple[str, ...]:
    """Known failures of the platform that the model is expected to meet, a sentence each."""
    platform = subject_of(bench, lease).profile.slug
    told = bench.ledger.manifest(platform)
    known = foretold(inventory(bench, lease).noun, bench.known_failures(platform), told[1].fingerprint if told else None)
    return tuple(sentence(one) for one in known)


def coverage_report(report: CoverageReport, *, reused: bool) -> StepReport:
    """What is covered and what is not, for people: the gaps with the terms of their ranking, and what engines say."""
    share = "unknown" if report.graph_coverage is None else f"{report.graph_coverage:.1%}"
    rows: list[dict[str, str | int | float | None]] = [
        {
            "gap": gap.operator,
            "why": gap.why,
            "bridge": gap.bridge,
            "cost": gap.cost,
            "share of FLOPs": round(gap.flops_share, 4),
            "share of bytes": round(gap.bytes_share, 4),
            "models": gap.models,
            "score": float(f"{gap.score:.3g}"),
        }
        for gap in report.gaps
    ]
    words = {True: "covered", False: "missing", None: "unknown"}
    notes = [f"{route.engine} {route.version}: {words[route.covered]}: {'; '.join(route.reasons)}" for route in report.engines]
    headline = f"graph coverage {share} on {report.platform} ({report.grade.value}), {len(report.gaps)} gaps"
    notes += [finding.message for finding in report.findings]
    return StepReport("coverage", headline, reused, tuple(rows), tuple(notes), coverage_check(report).verdict)
