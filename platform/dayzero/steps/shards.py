"""Steps on the day: the bytes on this host's disk, as published and as shards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dayzero.codec import dump
from dayzero.domain.adaptation import Lease
from dayzero.domain.planning import Degrees
from dayzero.domain.release import HubKind, Release
from dayzero.domain.reports import Cell, StepReport
from dayzero.domain.results import result_key
from dayzero.domain.shards import Integrity, ShardManifest
from dayzero.domain.slices import SlicePlan
from dayzero.domain.transfers import TransferEstimate
from dayzero.domain.verdict import worst_of
from dayzero.errors import BadInputError
from dayzero.stages.entries.deciding import integrity_check, weights_check
from dayzero.stages.headers.files import runner_files
from dayzero.stages.layout.laying import lay_out
from dayzero.stages.layout.ranks import fold
from dayzero.stages.transfer.estimating import gate_notes, source_sizes
from dayzero.stages.transfer.slices import slices_of
from dayzero.steps.contract import Bench, approved
from dayzero.steps.keeping import keep
from dayzero.steps.prestaging import (
    about,
    require_reference,
    subject_of,
)
from dayzero.steps.unpickling import SUFFIX, converted, converted_dir, is_pickled, require_readable
from dayzero.steps.weights import agreed_plan, chosen_degrees, exact_plan_step, full_structure, headers, headers_step


@dataclass(frozen=True, slots=True)
class OnDisk:
    """Where this host keeps a release: the checkpoint as published, and its shards under a plan."""

    model_dir: Path
    shards_dir: Path


def on_disk(bench: Bench, release: Release, degrees: Degrees) -> OnDisk:
    """The folders of a release under a plan; a directory model is used where it lies, what was made of pickles where it is."""
    if is_pickled(release):
        here = converted_dir(bench, release)
    elif release.hub is HubKind.DIRECTORY:
        here = Path(release.repo_id)
    else:
        here = (bench.models_dir or bench.work_dir / "models") / release.content_id
    return OnDisk(here, bench.work_dir / "shards" / release.content_id / str(degrees))


def fetch_step(bench: Bench, lease: Lease) -> StepReport:
    """Bring the files onto this host's disk, checked; what is there already is not fetched again."""
    release = subject_of(bench, lease).release
    require_readable(bench, release)
    if is_pickled(release):
        return _converted_step(bench, lease, release)
    place = on_disk(bench, release, Degrees())
    if release.hub is HubKind.DIRECTORY:
        return StepReport("fetch", f"{release.weight_bytes():,} bytes of weights are on this disk already", reused=True)
    hub = bench.hub_of(release)
    estimate = bench.transfer.estimate(hub, release, place.model_dir)
    approved(bench, estimate)
    bench.transfer.fetch(hub, release, place.model_dir, bench.progress)
    held = "" if estimate.download_bytes else ", which were held here already"
    headline = f"{release.weight_bytes():,} bytes of weights, checked against the hub's digests{held}"
    return StepReport("fetch", headline, reused=not estimate.download_bytes)


def _converted_step(bench: Bench, lease: Lease, release: Release) -> StepReport:
    """What the headers and the exact plan of safetensors are made of before: known here, once the pickles are read."""
    require_reference(bench, lease)
    with about(release):
        files = converted(bench, release).digests
    headers(bench, lease)
    found, plan = headers_step(bench, lease), exact_plan_step(bench, lease)
    headline = f"{len(files)} safetensors files made of {SUFFIX} files in a child without network: {found.headline}"
    return StepReport("fetch", headline, plan.reused, (*found.table, *plan.table), verdict=plan.verdict)


def place_of(bench: Bench, lease: Lease) -> OnDisk:
    """The folders of the release under the chosen plan."""
    return on_disk(bench, subject_of(bench, lease).release, chosen_degrees(bench, lease))


@dataclass(frozen=True, slots=True)
class Streamed:
    """Shards that came from this disk, or straight from a hub, and what was asked for where only slices were; `refused`: why
    nobody vouches for these."""

    manifest: ShardManifest
    slices: SlicePlan | None = None
    refused: str = ""


def write_shards(
    bench: Bench,
    lease: Lease,
    into: Path,
    *,
    checkpoint: Path | None = None,
    ranks: Sequence[int] = (),
    integrity: Integrity = Integrity.SHA256,
    degrees: Degrees | None = None,
) -> Streamed:
    """The shards of the chosen plan under `into`, whose sources are compared with the digests that their release states; or of
    smaller `degrees` that lead to it.

    They are cut from the `checkpoint`, where it is on this disk whole (that of a directory release is), else in one pass from
    the hub, without a full copy. With `ranks`, a node's: where those are not all, only the ranges that they need are asked for.
    BlockedError: too large to begin without approval.
    """
    release = subject_of(bench, lease).release
    require_readable(bench, release)
    spec, index = full_structure(bench, lease).noun, headers(bench, lease).noun
    redundant = agreed_plan(bench, lease).workload.redundant_experts
    under = degrees or chosen_degrees(bench, lease)
    layout = lay_out(release.content_id, spec, index, under, redundant if degrees is None else 0, ranks=ranks or None)
    here = on_disk(bench, release, layout.degrees).model_dir if _lies_here(release) else checkpoint
    if here is not None:
        stated = {file.path: digest for file in release.files if (digest := file.sha256 or file.git_blob_id)}
        if is_pickled(release):
            stated.update(converted(bench, release).digests)
        beside = [file.path for file in runner_files(release.files)]
        return Streamed(
            bench.transfer.shard(here, layout, into, bench.progress, integrity=integrity, stated=stated, beside=beside)
        )
    sliced = 0 < len(set(ranks)) < layout.degrees.world
    slices = slices_of(layout, index, ranks) if sliced else None
    approved(bench, _stream_estimate(bench, release, layout, into, slices))
    witness = bench.witness(release, layout) if slices else None
    manifest = bench.transfer.stream(
        bench.hub_of(release), release, index, layout, into, bench.progress,
        slices=slices, witness=witness, integrity=integrity,
    )  # fmt: skip
    return Streamed(manifest, slices, witness.reason if witness else "")


def _lies_here(release: Release) -> bool:
    """Whether the checkpoint is on this disk whatever was fetched: a folder, or what was made of pickles."""
    return release.hub is HubKind.DIRECTORY or is_pickled(release)


def written_shards(bench: Bench, lease: Lease, into: Path) -> Streamed:
    """The shards of the release that are under `into`, read again and compared with their digests; IntegrityError names the
    files and tensors that differ. BadInputError: there are none, or they are of another release."""
    release = subject_of(bench, lease).release
    manifest = bench.transfer.verify(into, bench.progress)
    if manifest.content_id != release.content_id:
        raise BadInputError(
            f"{into} holds shards of the content {manifest.content_id[:12]}; {release.repo_id} is {release.content_id[:12]}.",
            remedy="Name the model that they were made from.",
        )
    return Streamed(manifest)


def _stream_estimate(
    bench: Bench, release: Release, layout: ShardManifest, into: Path, slices: SlicePlan | None
) -> TransferEstimate:
    sizes = source_sizes(release, layout)
    room = bench.transfer.room(release, into)
    return TransferEstimate(
        subject=str(release.ref),
        download_bytes=slices.read_bytes if slices else sum(sizes.values()),
        disk_bytes=sum(file.size_bytes for file in layout.files),
        free_bytes=room.free_bytes,
        requests=slices.requests if slices else len(sizes),
        discarded_bytes=slices.overread_bytes if slices else 0,
        bytes_per_s=room.bytes_per_s,
        notes=gate_notes(release),
    )


def shard_step(bench: Bench, lease: Lease) -> StepReport:
    """Write the shards, record their manifest, and compare their bytes with the plan's."""
    require_reference(bench, lease)
    place = place_of(bench, lease)
    manifest = write_shards(bench, lease, place.shards_dir, checkpoint=place.model_dir).manifest
    folded = fold(manifest)
    kept = keep(bench.ledger, lease, result_key("shards", 3, folded.content_id, folded), ShardManifest, lambda: folded)
    check = weights_check(agreed_plan(bench, lease), manifest)
    bench.ledger.put_check(check, lease)
    evidence = bench.ledger.put_artifact(dump(folded), media_type="application/json", name="manifest.json", lease=lease)
    integrity = integrity_check(manifest, (evidence,))
    bench.ledger.put_check(integrity, lease)
    rows: tuple[Mapping[str, Cell], ...] = tuple(
        {"rank": file.rank, "file": file.path, "bytes": file.size_bytes, "digest": (file.digest or "")[:12]}
        for file in manifest.files
    )
    worst = worst_of((check, integrity))
    headline = f"{manifest.degrees}: {len(manifest.files)} shard files; {worst.verdict.value}: {worst.reason}"
    return StepReport("shard", headline, kept.reused, rows, verdict=worst.verdict)
