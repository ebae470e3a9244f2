"""The JSON documents of commands: additive only, each with its schema's name."""

from pathlib import Path

from dayzero.domain.canonical import Json, plain
from dayzero.domain.conversion import ConversionPlan
from dayzero.domain.entry import CompatibilityEntry, Lifecycle
from dayzero.domain.observed_endpoint import EndpointObserved
from dayzero.domain.outcomes import CORRECTNESS_ENDINGS
from dayzero.domain.reports import StepReport
from dayzero.domain.shards import ShardManifest, WeightsState
from dayzero.domain.slices import SlicePlan
from dayzero.domain.tensors import TensorHeader
from dayzero.domain.verdict import Check, Measurement, Verdict
from dayzero.errors import ExitCode
from dayzero.steps.concluding import Outcome
from dayzero.steps.shards import Streamed


def exit_code_of(entry: CompatibilityEntry) -> ExitCode:
    """The exit code that an entry stands for."""
    if entry.lifecycle is Lifecycle.BLOCKED:
        return ExitCode.NOT_MEASURED
    return ExitCode(CORRECTNESS_ENDINGS[entry.correctness].exit_code)


def exit_code_of_outcome(outcome: Outcome) -> ExitCode:
    """The exit code of an attempt: that of the error which stopped it, else that of its entry."""
    if outcome.error is not None:
        return outcome.error.exit_code
    return exit_code_of(outcome.entry) if outcome.entry else ExitCode.NOT_MEASURED


def streamed_notes(streamed: Streamed) -> tuple[str, ...]:
    """What people should know of fetched shards: whether they are verified, and what slices cost."""
    unverified = [source.path for source in streamed.manifest.sources if not source.verified]
    said = {
        WeightsState.HASHED: "every byte was checked",
        WeightsState.VOUCHED: f"every byte is one that the key {streamed.manifest.vouched_by} signed for",
        WeightsState.UNVERIFIED: f"unverified: {len(unverified)} source files were not checked",
    }
    notes = [said[streamed.manifest.state]]
    plan = streamed.slices
    if plan is not None:
        notes.append(
            f"{plan.read_bytes:,} bytes were asked for in {plan.requests:,} requests ({plan.requests_per_gib:.0f} a GiB), "
            f"{plan.overread_bytes:,} of them read over; {plan.streamed_tensors:,} strided slices came as whole rows"
        )
        if not streamed.manifest.verified:
            notes.append(f"slices have no digest on a hub, and nobody vouches for these: {streamed.refused}")
    return tuple(notes)


def _slices_document(plan: SlicePlan) -> dict[str, Json]:
    return {
        "ranks": list(plan.ranks),
        "shard_bytes": plan.shard_bytes,
        "needed_bytes": plan.needed_bytes,
        "read_bytes": plan.read_bytes,
        "overread_bytes": plan.overread_bytes,
        "requests": plan.requests,
        "requests_per_gib": plan.requests_per_gib,
        "streamed_tensors": plan.streamed_tensors,
    }


def fetch_document(streamed: Streamed, out: Path) -> dict[str, Json]:
    """What `dayzero fetch --json` prints."""
    manifest = streamed.manifest
    files: Json = [
        {
            "rank": file.rank,
            "path": file.path,
            "size_bytes": file.size_bytes,
            "weight_bytes": file.weight_bytes,
            "digest": file.digest,
            "tensors": len(file.tensors),
        }
        for file in manifest.files
    ]
    return {
        "schema": "dayzero.fetch/2",
        "content_id": manifest.content_id,
        "degrees": plain(manifest.degrees),
        "out": str(out),
        "files": files,
        "verified": manifest.verified,
        "state": manifest.state.value,
        "vouched_by": manifest.vouched_by or None,
        "refused": streamed.refused or None,
        "sources": [
            {"path": one.path, "size_bytes": one.size_bytes, "sha256": one.sha256, "verified": one.verified}
            for one in manifest.sources
        ],
        "slices": _slices_document(streamed.slices) if streamed.slices else None,
    }


def reshard_document(manifest: ShardManifest, out: Path) -> dict[str, Json]:
    """What `dayzero reshard --json` prints."""
    return {**fetch_document(Streamed(manifest), out), "schema": "dayzero.reshard/1"}


def convert_document(plan: ConversionPlan, out: Path) -> dict[str, Json]:
    """What `dayzero convert --json` prints."""
    files: Json = [{"path": file, "tensors": sum(len(one.outputs) for one in each)} for file, each in plan.files]
    counts: Json = dict(plan.counts)
    return {"schema": "dayzero.convert/1", "to": plan.target.value, "out": str(out), "tensors": counts, "files": files}


def export_document(tensors: tuple[TensorHeader, ...], out: Path, schema: str) -> dict[str, Json]:
    """What `dayzero export --json` prints, and `convert --to safetensors --json` as a convert document."""
    sizes: dict[str, list[int]] = {}
    for tensor in tensors:
        sizes.setdefault(tensor.file, []).append(tensor.size_bytes)
    files: Json = [{"path": file, "tensors": len(held), "weight_bytes": sum(held)} for file, held in sorted(sizes.items())]
    return {"schema": schema, "out": str(out), "files": files}


def columns_of(entry: CompatibilityEntry) -> dict[str, Json]:
    """The four columns of an entry."""
    return {
        "lifecycle": entry.lifecycle.value,
        "correctness": entry.correctness.value,
        "performance": entry.performance.value,
        "freshness": entry.freshness.value,
    }


def verify_document(entry: CompatibilityEntry) -> dict[str, Json]:
    """What `dayzero verify --json` prints."""
    return {
        "schema": "dayzero.verify/1",
        "model": entry.key.model,
        "platform": entry.key.platform,
        "plan": str(entry.key.plan),
        "method": entry.method,
        "checks": plain(entry.checks),
        "measurements": plain(entry.measurements),
        "culprits": plain(entry.culprits),
        "missing_checks": plain(entry.missing_checks),
        "sample_text": entry.sample_text,
        "entry": {**columns_of(entry), "reason": entry.reason},
    }


def exit_code_of_checks(checks: tuple[Check, ...]) -> ExitCode:
    """The exit code of checks that make no entry: fail counts most; what was not run beside passes does not."""
    found = {check.verdict for check in checks}
    if Verdict.FAIL in found:
        return ExitCode.VERDICT_FAIL
    return ExitCode.NOT_MEASURED if Verdict.ERROR in found or Verdict.PASS not in found else ExitCode.OK


def engine_document(engine: str, plan: str, checks: tuple[Check, ...], report: StepReport) -> dict[str, Json]:
    """What `dayzero verify --engine --json` prints: the checks of a library's own ranks make no entry of ours."""
    return {
        "schema": "dayzero.verify-engine/1",
        "engine": engine,
        "plan": plan,
        "verdict": None if report.verdict is None else report.verdict.value,
        "headline": report.headline,
        "checks": plain(checks),
        "notes": list(report.notes),
    }


def endpoint_document(
    observed: EndpointObserved, checks: tuple[Check, ...], measurements: tuple[Measurement, ...], deciding: Check
) -> dict[str, Json]:
    """What `dayzero verify --endpoint --json` prints."""
    first = observed.first.completion
    return {
        "schema": "dayzero.verify-endpoint/1",
        "endpoint": observed.url,
        "model": observed.model,
        "protocol": observed.protocol,
        "models": list(observed.served.names),
        "checks": plain(checks),
        "measurements": plain(measurements),
        "sample_text": None if first is None else first.text,
        "verdict": deciding.verdict.value,
        "reason": deciding.reason,
    }


def adapt_document(outcome: Outcome) -> dict[str, Json]:
    """What `dayzero adapt --json` prints."""
    return {
        "schema": "dayzero.adapt/1",
        "adaptation": plain(outcome.adaptation),
        "reason": outcome.reason,
        "verification": None if outcome.entry is None else verify_document(outcome.entry),
    }
