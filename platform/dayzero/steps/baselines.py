"""Baselines: the references' figures and tensors, recorded once on a disk and found by what they were computed from."""

from collections.abc import Mapping
from pathlib import Path

from dayzero.codec import load
from dayzero.domain.adaptation import Lease
from dayzero.domain.baselines import Baseline, BaselinesRecorded
from dayzero.domain.canonical import Json, plain
from dayzero.domain.planning import Degrees
from dayzero.domain.runs import Observation, RunEnd, RunRequest
from dayzero.errors import MeasurementError
from dayzero.steps.contract import Bench
from dayzero.steps.prestaging import require_reference, subject_of
from dayzero.steps.shards import fetch_step, on_disk
from dayzero.steps.stacks import runner_of

HOST_OPTIONS = ("baseline_dir", "content_id", "layers_from", "memory_limit_bytes")
"""Options of a request that say where this host finds things and how it takes them: no result depends on them."""


def folder_of(bench: Bench) -> Path:
    """Where this host keeps its baselines."""
    return bench.work_dir / "baselines"


def reference_options(bench: Bench, lease: Lease) -> Mapping[str, int | float | str | bool]:
    """The options by which an observation finds recorded baselines, and takes its layers as the settings say."""
    return {
        "baseline_dir": str(folder_of(bench)),
        "content_id": subject_of(bench, lease).release.content_id,
        "layers_from": bench.layers_from,
    }


def record_baselines(
    bench: Bench, lease: Lease, *, keep_layers: str = "all", most_bytes: int | None = None
) -> BaselinesRecorded:
    """Bring the model onto this disk and record what the references say of the packaged text; what is there stays.

    MeasurementError: the isolated run did not complete, with its reason.
    """
    require_reference(bench, lease)
    fetch_step(bench, lease)
    subject = subject_of(bench, lease)
    options = {**reference_options(bench, lease), "keep_layers": keep_layers, "model_name": subject.adaptation.model}
    if most_bytes is not None:
        options["most_bytes"] = most_bytes
    folder = on_disk(bench, subject.release, Degrees()).model_dir
    outcome = runner_of(bench, lease).run(
        RunRequest(Observation.BASELINE, subject.profile.slug, str(folder), options=options), bench.limits
    )
    if outcome.end is not RunEnd.COMPLETED:
        raise MeasurementError(
            f"no baseline of {subject.adaptation.model} was recorded: {outcome.end.value.replace('_', ' ')}, {outcome.reason}",
            remedy="See what the run said; raise DAYZERO_CHECK_MEMORY_BYTES or DAYZERO_CHECK_TIMEOUT_S where it names them.",
        )
    return load(BaselinesRecorded, outcome.document)


def baselines_document(found: tuple[Baseline, ...]) -> dict[str, Json]:
    """dayzero.baseline/1: every baseline with its name and what it was computed from."""
    return {"schema": "dayzero.baseline/1", "baselines": [{"name": one.of.name, **_object(one)} for one in found]}


def _object(one: Baseline) -> dict[str, Json]:
    made = plain(one)
    assert isinstance(made, dict)
    return made


def baseline_rows(found: tuple[Baseline, ...]) -> tuple[dict[str, object], ...]:
    """Baselines as table rows."""
    return tuple(
        {
            "name": one.of.name[:12],
            "kind": one.of.kind,
            "model": one.model,
            "content": one.of.content_id[:12],
            "tokens": one.of.tokens,
            "dtype": f"{one.of.native_dtype}/{one.of.reference_dtype}",
            "layers kept": sum(layer.kept_bytes > 0 for layer in one.layers) if one.of.kind == "layers" else None,
            "nll": one.nll_reference,
            "bytes": one.kept_bytes,
            "recorded": one.recorded_at,
        }
        for one in found
    )
