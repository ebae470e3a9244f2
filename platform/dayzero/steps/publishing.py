"""Steps after verification: the bundle and the image."""

import gzip
import io
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dayzero.codec import load
from dayzero.domain.adaptation import Lease
from dayzero.domain.entry import DayZeroClock
from dayzero.domain.reports import Cell, StepReport
from dayzero.domain.results import result_key
from dayzero.domain.shards import ShardManifest
from dayzero.domain.stacks import over
from dayzero.domain.verdict import Check, CheckLayer, Grade, Verdict
from dayzero.errors import DayzeroError, UnavailableError
from dayzero.stages.bundle.file import BundleFile
from dayzero.stages.bundle.rendering import image_tag, render_bundle
from dayzero.steps.concluding import entry_of, found_by
from dayzero.steps.contract import Bench
from dayzero.steps.keeping import Kept, keep
from dayzero.steps.prestaging import subject_of

BUNDLE_TYPE = "application/gzip"
IMAGE_CHECK = "image.build"


def bundle_files(bench: Bench, lease: Lease) -> tuple[BundleFile, ...]:
    """The bundle's files, rendered from what was found."""
    subject = subject_of(bench, lease)
    found = found_by(bench, lease)
    entry = replace(entry_of(bench, lease), clock=DayZeroClock(), bundle=None)
    offered = bench.ledger.manifest(subject.profile.slug)
    shards = [stored for stored in bench.ledger.linked_results(lease.adaptation_id) if stored.key.stage == "shards"]
    manifest = load(ShardManifest, shards[-1].document) if shards else None
    return render_bundle(
        entry,
        spec=found.spec,
        plan=found.plan,
        manifest=manifest,
        release=subject.release,
        stack=over(offered[1], found.recipe) if offered else None,
        profile=subject.profile,
        policy=subject.adaptation.policy,
    )


def bundle(bench: Bench, lease: Lease, files: tuple[BundleFile, ...]) -> Kept[str]:
    """The bundle's files as one archive among the artifacts: its sha256."""
    name = f"{subject_of(bench, lease).adaptation.model.replace('/', '--')}.tar.gz"

    def pack() -> str:
        return bench.ledger.put_artifact(archive(files), media_type=BUNDLE_TYPE, name=name, lease=lease)

    return keep(bench.ledger, lease, result_key("bundle", 1, files), str, pack)


def archive(files: tuple[BundleFile, ...]) -> bytes:
    """A gzipped tar of the files; equal files give equal bytes."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for file in sorted(files, key=lambda file: file.path):
            data = file.text.encode()
            entry = tarfile.TarInfo(file.path)
            entry.size = len(data)
            entry.mode = 0o755 if file.executable else 0o644
            tar.addfile(entry, io.BytesIO(data))
    return gzip.compress(raw.getvalue(), mtime=0)


def bundle_step(bench: Bench, lease: Lease) -> StepReport:
    """Pack the bundle and list what is in it."""
    files = bundle_files(bench, lease)
    kept = bundle(bench, lease, files)
    rows: tuple[Mapping[str, Cell], ...] = tuple({"file": file.path, "bytes": len(file.text.encode())} for file in files)
    return StepReport("bundle", f"{len(rows)} files, artifact {kept.noun[:12]}", kept.reused, rows)


def write_bundle(files: tuple[BundleFile, ...], into: Path) -> None:
    """Put the bundle's files into a folder."""
    for file in files:
        path = into / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, encoding="utf-8")
        path.chmod(0o755 if file.executable else 0o644)


def image_step(bench: Bench, lease: Lease) -> StepReport:
    """Build the image where an engine answers; where none does it is not_run, and says so."""
    subject = subject_of(bench, lease)
    context = bench.work_dir / "images" / subject.adaptation.id
    write_bundle(bundle_files(bench, lease), context)
    tag = image_tag(subject.adaptation.model, subject.adaptation.content_id)
    try:
        digest = bench.images.build(context, tag)
        verdict, reason = Verdict.PASS, f"built {tag} as {digest}"
    except UnavailableError as error:
        verdict, reason = Verdict.NOT_RUN, str(error)
    except DayzeroError as error:
        verdict, reason = Verdict.ERROR, str(error)
    check = Check(CheckLayer.END_TO_END, IMAGE_CHECK, "tp1", verdict, Grade.MEASURED, reason)
    bench.ledger.put_check(check, lease)
    return StepReport("image", f"{verdict.value}: {reason}", verdict=verdict)
