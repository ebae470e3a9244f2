"""A release that publishes its weights only as pickles: whether they may be read, and the safetensors made of them here."""

import shutil
from pathlib import Path

from dayzero.codec import load
from dayzero.domain.conversion import Converted, Unpickled
from dayzero.domain.release import HubKind, Release, RepoFile
from dayzero.domain.runs import Observation, RunEnd, RunRequest
from dayzero.domain.transfers import TransferEstimate
from dayzero.errors import BadInputError, BlockedError, MeasurementError
from dayzero.stages.headers.files import PICKLES_INDEX_FILE, needed_pickles, runner_files
from dayzero.stages.headers.reading import MAX_INDEX_BYTES, parse_weight_map
from dayzero.stages.transfer.estimating import gate_notes
from dayzero.steps.contract import Bench, approved

SUFFIX = ".bin"


def is_pickled(release: Release) -> bool:
    """Whether the release publishes weights as .bin files, and none as safetensors."""
    weights = [file.path for file in release.weight_files()]
    return any(path.endswith(SUFFIX) for path in weights) and not any(path.endswith(".safetensors") for path in weights)


def has_headers(release: Release) -> bool:
    """Whether the release's tensors can be told before its weights are moved: it has weights, and not in pickles alone."""
    return bool(release.weight_files()) and not is_pickled(release)


def require_readable(bench: Bench, release: Release) -> None:
    """BlockedError for a release whose weights cannot be read: other formats than safetensors, pickles that nobody allowed."""
    weights = release.weight_files()
    if not weights or any(file.path.endswith(".safetensors") for file in weights):
        return
    if not is_pickled(release):
        raise BlockedError(
            f"{release.repo_id} publishes its weights only as {Path(weights[0].path).suffix} files, which are not read.",
            remedy="Ask its publisher for safetensors, or convert it with the tools of that format and adapt the folder.",
        )
    if release.repo_id not in bench.allow_pickle:
        raise BlockedError(
            f"{release.repo_id} publishes its weights only as {SUFFIX} files, which can run code; nobody allowed to read them.",
            remedy=f"Ask its publisher for safetensors; or, to have them converted in a sandbox without network, put "
            f"{release.repo_id} into DAYZERO_ALLOW_PICKLE.",
        )


def converted_dir(bench: Bench, release: Release) -> Path:
    """Where this host keeps what it made of a release's pickles."""
    return bench.work_dir / "converted" / release.content_id


def converted(bench: Bench, release: Release) -> Converted:
    """The checkpoint that the release's pickles hold, as safetensors in `converted_dir`: made now where it is not there yet.

    BlockedError: not allowed, or too large to begin without approval. BadInputError: pickles that hold more than tensors, or
    less than their index says. MeasurementError: the child that reads them ended badly.
    """
    require_readable(bench, release)
    into = converted_dir(bench, release)
    return bench.conversions.kept(into) or convert_pickles(bench, release, into)


def convert_pickles(bench: Bench, release: Release, into: Path) -> Converted:
    """The checkpoint that the release's pickles hold, as safetensors in a new folder; errors as for `converted`."""
    require_readable(bench, release)
    named = _weight_map(bench, release)
    source = pickles_on_disk(bench, release, named)
    found = bench.conversions.sealed(
        source,
        into,
        release.weight_bytes(),
        lambda partial: unpickle(bench, release, source, partial, named),
        frozenset(named or ()),
    )
    if release.hub is not HubKind.DIRECTORY:
        shutil.rmtree(source, ignore_errors=True)
    return found


def pickles_on_disk(bench: Bench, release: Release, named: dict[str, str] | None) -> Path:
    """The folder that holds the release's pickles and small files: fetched and checked where it is no folder already."""
    wanted = pickles_of(release, named)
    if release.hub is HubKind.DIRECTORY:
        return Path(release.repo_id)
    into, size_bytes = bench.work_dir / "pickles" / release.content_id, sum(file.size_bytes for file in wanted)
    # The pickles and what is made of them lie on the disk at the same time.
    approved(bench, TransferEstimate(str(release.ref), size_bytes, 2 * size_bytes, notes=gate_notes(release)))
    for file in (*runner_files(release.files), *wanted):
        bench.hub_of(release).download(release, file.path, into, bench.progress)
    return into


def pickles_of(release: Release, named: dict[str, str] | None) -> tuple[RepoFile, ...]:
    """The pickles that hold the release's checkpoint. BadInputError: it has none, safetensors beside them, or not all that its
    index names."""
    if not is_pickled(release):
        raise BadInputError(
            f"{release.repo_id} does not publish its weights as {SUFFIX} files alone: nothing has to be unpickled.",
            remedy="Use it as it is.",
        )
    found = needed_pickles(release.files, named)
    absent = sorted(set((named or {}).values()) - {file.path for file in found})
    if absent or not found:
        what = f"{absent[0]}, which its index names" if absent else f"{SUFFIX} files at its top"
        raise BadInputError(f"{release.repo_id} has no {what}.", remedy="Wait until the publisher has uploaded them.")
    return found


def unpickle(bench: Bench, release: Release, model_dir: Path, into: Path, named: dict[str, str] | None) -> Unpickled:
    """Read the pickles in an isolated child and write safetensors below `into`.

    BadInputError with the child's reason when a pickle holds more than tensors; MeasurementError when the child ended badly.
    """
    files = "\n".join(file.path for file in pickles_of(release, named))
    options = {"out": str(into.resolve()), "files": files}
    outcome = bench.runner.run(RunRequest(Observation.UNPICKLE, "cpu", str(model_dir.resolve()), options=options), bench.limits)
    if outcome.end is RunEnd.REFUSED:
        raise BadInputError(f"{release.repo_id}: {outcome.reason}")
    if outcome.end is not RunEnd.COMPLETED:
        raise MeasurementError(
            f"the pickles of {release.repo_id} could not be read: {outcome.reason}.",
            remedy="Run it again; with more of DAYZERO_CHECK_MEMORY_BYTES or DAYZERO_CHECK_TIMEOUT_S where those ended it.",
        )
    return load(Unpickled, outcome.document)


def _weight_map(bench: Bench, release: Release) -> dict[str, str] | None:
    """Tensor name → pickle, as the index says; None when the release has no index of its pickles."""
    if not any(file.path == PICKLES_INDEX_FILE for file in release.files):
        return None
    document = bench.hub_of(release).read_small(release, PICKLES_INDEX_FILE, MAX_INDEX_BYTES)
    return dict(parse_weight_map(document, PICKLES_INDEX_FILE))
