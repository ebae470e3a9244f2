"""Fetching: only what adaptation needs, through the hub's checked download."""

from pathlib import Path, PurePosixPath

from dayzero.disk import free_bytes, refusals_spoken, require_space
from dayzero.domain.release import Release, RepoFile
from dayzero.domain.transfers import TransferEstimate
from dayzero.errors import BadInputError
from dayzero.ports.hub import Hub, Progress
from dayzero.stages.headers.files import WEIGHTS_INDEX_FILE, needed_small_files, needed_weights
from dayzero.stages.headers.reading import parse_weight_map
from dayzero.stages.transfer.estimating import gate_notes

_LARGEST_INDEX_BYTES = 64 << 20


def fetch_release(hub: Hub, release: Release, into: Path, progress: Progress | None) -> Path:
    """Configuration, tokenizer and the safetensors files that the index needs, under `into`; never pickles, never code.

    BadInputError: the index names files that are not there, or a path climbs out. DependencyError: not enough space, checked
    before the first byte. The hub's errors pass through.
    """
    small = needed_small_files(release.files)
    for file in small:
        _require_inside(file.path, release)
    with refusals_spoken(into):
        into.mkdir(parents=True, exist_ok=True)
    require_space(into, _missing_bytes(small, into), f"fetching {release.repo_id}")
    for file in small:
        hub.download(release, file.path, into, None)
    files = _weights(release, into)
    total = sum(file.size_bytes for file in files)
    require_space(into, _missing_bytes(files, into), f"fetching {release.repo_id}")
    done = 0
    for file in files:
        hub.download(release, file.path, into, _shifted(progress, done, total))
        done += file.size_bytes
        if progress is not None:
            progress(done, total)
    return into


def estimate_fetch(hub: Hub, release: Release, into: Path, bytes_per_s: float | None) -> TransferEstimate:
    """What fetch_release would move, from the release's sizes and its index; nothing large is read."""
    index = next((file for file in release.files if file.path == WEIGHTS_INDEX_FILE), None)
    weight_map = parse_weight_map(hub.read_small(release, index.path, _LARGEST_INDEX_BYTES)) if index else None
    files = (*needed_small_files(release.files), *needed_weights(release.files, weight_map))
    for file in files:
        _require_inside(file.path, release)
    missing = _missing_bytes(files, into)
    free = free_bytes(into)
    return TransferEstimate(str(release.ref), missing, missing, free, len(files), 0, bytes_per_s, gate_notes(release))


def _weights(release: Release, into: Path) -> tuple[RepoFile, ...]:
    index = into / WEIGHTS_INDEX_FILE
    named = any(file.path == WEIGHTS_INDEX_FILE for file in release.files)
    weight_map = parse_weight_map(index.read_bytes()) if named else None
    files = needed_weights(release.files, weight_map)
    for file in files:
        _require_inside(file.path, release)
    absent = sorted(set(weight_map.values()) - {file.path for file in files}) if weight_map else []
    if absent:
        raise BadInputError(
            f"{release.repo_id} at {release.revision[:12]}: {WEIGHTS_INDEX_FILE} names {len(absent)} files that are not "
            f"there: {', '.join(absent[:5])}.",
            remedy="Wait until the publisher has uploaded them.",
        )
    return files


def _missing_bytes(files: tuple[RepoFile, ...], into: Path) -> int:
    there = {file.path: (into / file.path).stat().st_size for file in files if (into / file.path).is_file()}
    return sum(max(0, file.size_bytes - there.get(file.path, 0)) for file in files)


def _shifted(progress: Progress | None, before: int, total: int) -> Progress | None:
    if progress is None:
        return None
    return lambda done, _: progress(before + done, total)


def _require_inside(path: str, release: Release) -> None:
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or "\\" in path or "\0" in path or path in ("", "."):
        raise BadInputError(f"{release.repo_id} names a file {path!r}, which lies outside of its folder; nothing was fetched.")
