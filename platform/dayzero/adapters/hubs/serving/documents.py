"""The JSON documents of the hub's API, as huggingface_hub reads them."""

from collections.abc import Mapping, Sequence

from dayzero.adapters.hubs.cards import Card
from dayzero.adapters.hubs.serving.snapshots import Commit, RepoHistory, ServedFile
from dayzero.domain.canonical import Json


def model_document(history: RepoHistory, commit: Commit, card: Card, *, siblings: bool, blobs: bool) -> dict[str, Json]:
    """A model in a listing or on its own (GET /api/models/…)."""
    document: dict[str, Json] = {
        "_id": commit.id[:24],
        "id": history.repo_id,
        "modelId": history.repo_id,
        "author": history.repo_id.split("/")[0],
        "sha": commit.id,
        "createdAt": zulu(history.commits[0].date),
        "lastModified": zulu(commit.date),
        "private": False,
        "gated": False,
        "disabled": False,
        "downloads": 0,
        "likes": 0,
        "tags": list(card.tags),
        "pipeline_tag": card.task,
        "library_name": card.library,
        "config": {"architectures": list(card.architectures), "model_type": card.model_type},
    }
    if siblings:
        document["siblings"] = [_sibling(file, blobs) for file in commit.files]
    if blobs:
        document["usedStorage"] = sum(file.size_bytes for file in commit.files)
    return document


def _sibling(file: ServedFile, blobs: bool) -> dict[str, Json]:
    if not blobs:
        return {"rfilename": file.path}
    document: dict[str, Json] = {"rfilename": file.path, "size": file.size_bytes, "blobId": blob_id_of(file)}
    if file.lfs:
        document["lfs"] = {"sha256": file.oid, "size": file.size_bytes, "pointerSize": len(file.lfs_pointer)}
    return document


def blob_id_of(file: ServedFile) -> str:
    """The git blob id: of the file, or of its LFS pointer."""
    from dayzero.adapters.hubs.digests import git_blob_id

    return git_blob_id(file.lfs_pointer) if file.lfs else file.oid


def tree_documents(commit: Commit, under: str, *, recursive: bool, expand: bool) -> list[dict[str, Json]]:
    """The entries of a tree, folders first seen first; empty when nothing lies under that path."""
    prefix = f"{under}/" if under else ""
    entries: dict[str, dict[str, Json]] = {}
    for file in commit.files:
        if not file.path.startswith(prefix):
            continue
        parts = file.path[len(prefix) :].split("/")
        depth = len(parts) - 1 if recursive else min(1, len(parts) - 1)
        for level in range(1, depth + 1):
            folder = prefix + "/".join(parts[:level])
            entries.setdefault(folder, _folder(commit, folder, expand))
        if recursive or len(parts) == 1:
            entries[file.path] = file_document(commit, file, expand=expand)
    return list(entries.values())


def file_document(commit: Commit, file: ServedFile, *, expand: bool) -> dict[str, Json]:
    """One file of a tree."""
    document: dict[str, Json] = {"type": "file", "path": file.path, "size": file.size_bytes, "oid": blob_id_of(file)}
    if file.lfs:
        document["lfs"] = {"oid": file.oid, "size": file.size_bytes, "pointerSize": len(file.lfs_pointer)}
    if expand:
        document["lastCommit"] = _last_commit(commit)
    return document


def _folder(commit: Commit, path: str, expand: bool) -> dict[str, Json]:
    document: dict[str, Json] = {"type": "directory", "path": path, "size": 0, "oid": commit.id}
    if expand:
        document["lastCommit"] = _last_commit(commit)
    return document


def paths_documents(commit: Commit, paths: Sequence[str], *, expand: bool) -> list[dict[str, Json]]:
    """The entries of the named paths that exist."""
    found = []
    for path in dict.fromkeys(name.strip("/") for name in paths):
        file = next((file for file in commit.files if file.path == path), None)
        if file is not None:
            found.append(file_document(commit, file, expand=expand))
        elif any(other.path.startswith(f"{path}/") for other in commit.files):
            found.append(_folder(commit, path, expand))
    return found


def _last_commit(commit: Commit) -> dict[str, Json]:
    return {"id": commit.id, "title": commit.title, "date": zulu(commit.date)}


def commit_document(commit: Commit, formatted: bool) -> dict[str, Json]:
    """One commit of a history."""
    document: dict[str, Json] = {
        "id": commit.id,
        "title": commit.title,
        "message": "",
        "date": zulu(commit.date),
        "authors": [{"user": "dayzero"}],
    }
    if formatted:
        document["formatted"] = {"title": commit.title, "message": ""}
    return document


def refs_document(history: RepoHistory) -> Mapping[str, Json]:
    """The one branch."""
    main: Json = {"name": "main", "ref": "refs/heads/main", "targetCommit": history.head.id}
    return {"branches": [main], "tags": [], "converts": [], "pullRequests": []}


def zulu(date: str) -> str:
    """An ISO date in UTC as the hub writes it: 2026-01-31T23:59:59.000Z."""
    return date.replace("+00:00", "Z")
