"""Releases into a site's store: which files, under which name they are served, and the documents about it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from dayzero.counting import part_of
from dayzero.domain.canonical import Json, plain
from dayzero.domain.parcels import Moved
from dayzero.domain.release import FileRole, HubKind, Release, RepoFile
from dayzero.domain.stored import Evicted, HeldRelease, StoreUse
from dayzero.domain.transfers import TransferEstimate
from dayzero.errors import BadInputError
from dayzero.names import safe_repo_id
from dayzero.ports.hub import Hub, Progress
from dayzero.ports.storing import ReleaseStore
from dayzero.stages.headers.files import needed_weights
from dayzero.stages.headers.reading import parse_weight_map
from dayzero.stages.transfer.estimating import gate_notes
from dayzero.steps.headers import weight_map_of


@dataclass(frozen=True, slots=True)
class Stored:
    """A release that came into the store: as what, which of its files, the bytes that came for it, and what had to go."""

    release: Release
    files: tuple[RepoFile, ...]
    fetched_bytes: int
    evicted: tuple[Evicted, ...]


def files_to_store(hub: Hub, release: Release, *, everything: bool) -> tuple[RepoFile, ...]:
    """Everything, or all but the weights that the checkpoint does not need (copies in other formats, `original/`)."""
    if everything:
        return release.files
    document = weight_map_of(hub, release)
    needed = set(needed_weights(release.files, parse_weight_map(document) if document is not None else None))
    return tuple(file for file in release.files if file.role is not FileRole.WEIGHTS or file in needed)


def named(release: Release, repo_id: str | None) -> Release:
    """The release as it is served: under its own repository, or for a folder as `repo_id` (unset: local/FOLDER).

    BadInputError: that is not org/name, or a repository of a hub was to be renamed.
    """
    if release.hub is not HubKind.DIRECTORY:
        if repo_id not in (None, release.repo_id):
            raise BadInputError(f"{release.ref} keeps its name.", remedy="Leave --as out: only folders need one.")
        return release
    name = repo_id or f"local/{PurePath(release.repo_id).name}"
    if "/" not in safe_repo_id(name):
        raise BadInputError(f"{name!r} is a name without its org.", remedy="Name one as org/name with --as.")
    return replace(release, repo_id=name)


def estimate_storing(store: ReleaseStore, release: Release, files: tuple[RepoFile, ...]) -> TransferEstimate:
    """What storing would move; files that are held already move nothing."""
    missing = sum(file.size_bytes for file in files if store.held(release, file) is None)
    return TransferEstimate(str(release.ref), missing, missing, requests=len(files), notes=gate_notes(release))


def store_release(
    store: ReleaseStore, hub: Hub, release: Release, files: tuple[RepoFile, ...], repo_id: str | None, progress: Progress | None
) -> Stored:
    """Bring the files of a release from its hub (or folder) into the store. Errors: see ReleaseStore.taking and obtain."""
    served = named(release, repo_id)
    fetched = estimate_storing(store, served, files).download_bytes
    total, done = sum(file.size_bytes for file in files), 0
    with store.taking(served, files) as evicted:
        for file in files:
            store.obtain(hub, release, file, part_of(progress, done, total))
            done += file.size_bytes
    return Stored(served, files, fetched, evicted)


def store_document(use: StoreUse, held: Sequence[HeldRelease]) -> dict[str, Json]:
    """What `dayzero store ls --json` prints."""
    return {
        "schema": "dayzero.store/1",
        "use": plain(use),
        "releases": [
            {
                "content_id": one.release.content_id,
                "names": list(one.release.names),
                "revisions": [str(release.ref) for release in one.release.releases],
                "held_bytes": one.held_bytes,
                "files": len(one.release.wanted),
                "missing_files": len(one.release.missing),
                "used_at_s": one.used_at_s,
                "in_use": one.pinned,
            }
            for one in held
        ],
    }


def store_add_document(stored: Stored) -> dict[str, Json]:
    """What `dayzero store add --json` prints."""
    return {
        "schema": "dayzero.store-add/1",
        "name": stored.release.repo_id,
        "revision": stored.release.revision,
        "content_id": stored.release.content_id,
        "files": [{"path": file.path, "size_bytes": file.size_bytes} for file in stored.files],
        "fetched_bytes": stored.fetched_bytes,
        "evicted": plain(stored.evicted),
    }


def store_evict_document(evicted: Sequence[Evicted], in_use: Sequence[str]) -> dict[str, Json]:
    """What `dayzero store evict --json` prints; `in_use` are the content ids that stay."""
    return {"schema": "dayzero.store-evict/1", "evicted": plain(tuple(evicted)), "in_use": list(in_use)}


def moved_document(moved: Moved, schema: str) -> dict[str, Json]:
    """What `dayzero store put --json` and `take --json` print."""
    return {
        "schema": schema,
        "place": moved.place,
        "content_id": moved.parcel.content_id,
        "files": plain(moved.parcel.files),
        "moved_bytes": moved.moved_bytes,
        "kept_bytes": moved.kept_bytes,
    }
