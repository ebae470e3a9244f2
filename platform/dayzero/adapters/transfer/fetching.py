"""Fetching: only what adaptation needs, through the hub's checked download."""

from collections.abc import Callable, Sequence
from pathlib import Path

from dayzero.counting import part_of
from dayzero.disk import refusals_spoken
from dayzero.domain.release import Release, RepoFile
from dayzero.errors import BadInputError
from dayzero.names import safe_path
from dayzero.ports.hub import Hub, Progress
from dayzero.stages.headers.files import WEIGHTS_INDEX_FILE, needed_small_files, needed_weights
from dayzero.stages.headers.reading import MAX_INDEX_BYTES, parse_weight_map


def fetch_release(hub: Hub, release: Release, files: Sequence[RepoFile], into: Path, progress: Progress | None) -> Path:
    """The files (see needed_files) under `into`; errors are those of the hub and the disk."""
    with refusals_spoken(into):
        into.mkdir(parents=True, exist_ok=True)
    total, done = sum(file.size_bytes for file in files), 0
    for file in files:
        hub.download(release, file.path, into, part_of(progress, done, total))
        done += file.size_bytes
        if progress is not None:
            progress(done, total)
    return into


def needed_files(hub: Hub, release: Release) -> tuple[RepoFile, ...]:
    """Configuration, tokenizer and the safetensors files that the index needs; never pickles, never code.

    Nothing large is read. BadInputError: the index names files that are not there, or a path climbs out.
    """
    index = next((file for file in release.files if file.path == WEIGHTS_INDEX_FILE), None)
    weight_map = parse_weight_map(hub.read_small(release, index.path, MAX_INDEX_BYTES)) if index else None
    files = (*needed_small_files(release.files), *needed_weights(release.files, weight_map))
    for file in files:
        safe_path(file.path, str(release.ref))
    absent = sorted(set(weight_map.values()) - {file.path for file in files}) if weight_map else []
    if absent:
        raise BadInputError(
            f"{release.repo_id} at {release.revision[:12]}: {WEIGHTS_INDEX_FILE} names {len(absent)} files that are not "
            f"there: {', '.join(absent[:5])}.",
            remedy="Wait until the publisher has uploaded them.",
        )
    return files


def missing_bytes(files: Sequence[RepoFile], into: Path, held: Callable[[RepoFile], bool] = lambda file: False) -> int:
    """Bytes of the files that are neither under `into` nor held elsewhere on this disk."""
    there = {file.path: (into / file.path).stat().st_size for file in files if (into / file.path).is_file()}
    return sum(max(0, file.size_bytes - there.get(file.path, 0)) for file in files if not held(file))
