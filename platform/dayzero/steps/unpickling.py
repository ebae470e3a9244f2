"""A release that publishes its weights only as pickles: whether they may be read, where they are, and reading them."""

from pathlib import Path

from dayzero.codec import load
from dayzero.domain.conversion import Unpickled
from dayzero.domain.release import FileRole, HubKind, Release, RepoFile
from dayzero.domain.runs import Observation, RunEnd, RunRequest
from dayzero.errors import BadInputError, BlockedError, MeasurementError
from dayzero.stages.headers.files import needed_small_files
from dayzero.steps.contract import Bench

SUFFIX = ".bin"


def pickles_of(bench: Bench, release: Release) -> tuple[RepoFile, ...]:
    """The pickles at the top of a release that may be read. BadInputError: it has none, or safetensors beside them.
    BlockedError: nobody allowed them."""
    weights = release.weight_files()
    if any(file.path.endswith(".safetensors") for file in weights):
        raise BadInputError(f"{release.repo_id} publishes safetensors: nothing has to be unpickled.")
    found = tuple(file for file in weights if file.path.endswith(SUFFIX) and "/" not in file.path)
    if not found:
        raise BadInputError(f"{release.repo_id} has no {SUFFIX} files.", remedy="See what it publishes on its page.")
    if release.repo_id not in bench.allow_pickle:
        raise BlockedError(
            f"{release.repo_id} publishes its weights only as {SUFFIX} files, which can run code; nobody allowed to read them.",
            remedy=f"To convert them in a sandbox without network, put {release.repo_id} into DAYZERO_ALLOW_PICKLE.",
        )
    return found


def pickles_on_disk(bench: Bench, release: Release) -> Path:
    """The folder that holds the release's pickles and small files: fetched and checked where it is no folder already."""
    wanted = pickles_of(bench, release)
    if release.hub is HubKind.DIRECTORY:
        return Path(release.repo_id)
    into = bench.work_dir / "pickles" / release.content_id
    hub = bench.hub_of(release)
    small = [file for file in needed_small_files(release.files) if file.role is not FileRole.WEIGHTS_INDEX]
    for file in (*small, *wanted):
        hub.download(release, file.path, into, bench.progress)
    return into


def unpickle(bench: Bench, release: Release, model_dir: Path, into: Path) -> Unpickled:
    """Read the pickles in an isolated child and write safetensors below `into`.

    BadInputError with the child's reason when a pickle holds more than tensors; MeasurementError when the child ended badly.
    """
    files = "\n".join(file.path for file in pickles_of(bench, release))
    options = {"out": str(into.resolve()), "files": files}
    outcome = bench.runner.run(RunRequest(Observation.UNPICKLE, "cpu", str(model_dir.resolve()), options=options), bench.limits)
    if outcome.end is RunEnd.REFUSED:
        raise BadInputError(f"{release.repo_id}: {outcome.reason}")
    if outcome.end is not RunEnd.COMPLETED:
        raise MeasurementError(f"the pickles of {release.repo_id} could not be read: {outcome.reason}.")
    return load(Unpickled, outcome.document)
