"""A store's releases as repositories: the same commits, files and digests that the hub stated, and the bytes that are held."""

import re
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from dayzero.adapters.hubs.serving.snapshots import Commit, RepoHistory, ServedFile
from dayzero.domain.release import Release
from dayzero.domain.stored import StoredRelease
from dayzero.ports.storing import ReleaseStore

_ID_DIGITS = 40
_REPO_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class ServedStore:
    """The releases of a store whose repository has the form org/name. What a client asks for is not evicted for some minutes.

    A commit lists every file that its release has, held or not: so a client finds the same content as at the hub.
    """

    def __init__(self, store: ReleaseStore) -> None:
        self._store = store
        self._made: tuple[tuple[StoredRelease, ...], Mapping[str, RepoHistory]] = ((), {})

    def repo_ids(self) -> list[str]:
        """Every repository of a release that is held, sorted."""
        return sorted(self._histories())

    def history(self, repo_id: str) -> RepoHistory | None:
        """The repository's revisions that are held, the newest by its date of publication last."""
        return self._histories().get(repo_id)

    def known_commit(self, repo_id: str, revision: str) -> tuple[RepoHistory, Commit] | None:
        """A commit by its full id."""
        history = self.history(repo_id) if len(revision) == _ID_DIGITS else None
        commit = history.find(revision) if history else None
        return (history, commit) if history and commit else None

    def locate(self, repo_id: str, file: ServedFile) -> Path | None:
        """The object of that version of the file; None when it is not held. Its release is in use from now on."""
        for reference in self._store.releases():
            if repo_id in reference.names and file.oid in reference.objects:
                place = self._store.object(reference.objects[file.oid])
                if place is not None and place.stat().st_size == file.size_bytes:
                    self._store.lease(reference.content_id)
                    return place
        return None

    def why_not_here(self, file: ServedFile, commit: Commit) -> str:
        """One sentence about a file that is listed and not held."""
        return (
            f"{file.path} of commit {commit.id} is not in this store, which holds what adaptation needs:"
            " leave it out, or bring it with `dayzero store add --all`."
        )

    def _histories(self) -> Mapping[str, RepoHistory]:
        references = self._store.releases()
        known, histories = self._made
        if len(known) != len(references) or any(one is not other for one, other in zip(known, references, strict=True)):
            histories = _histories_of(references)
            self._made = (references, histories)
        return histories


def _histories_of(references: tuple[StoredRelease, ...]) -> Mapping[str, RepoHistory]:
    found: dict[str, dict[str, Commit]] = defaultdict(dict)
    for reference in references:
        for release in _served(reference):
            commit = _commit_of(release)
            found[release.repo_id].setdefault(commit.id, commit)
    return {
        repo_id: RepoHistory(repo_id, tuple(sorted(commits.values(), key=lambda one: one.when)))
        for repo_id, commits in found.items()
    }


def _served(reference: StoredRelease) -> tuple[Release, ...]:
    held = reference.objects and not reference.missing
    return tuple(release for release in reference.releases if held and _REPO_ID.fullmatch(release.repo_id))


def _commit_of(release: Release) -> Commit:
    files = tuple(
        ServedFile(file.path, file.size_bytes, file.sha256 or file.git_blob_id or "", lfs=file.sha256 is not None)
        for file in release.files
        if file.sha256 or file.git_blob_id
    )
    date = (release.published_at or _LONG_AGO).astimezone(UTC).isoformat(timespec="milliseconds")
    return Commit(release.revision[:_ID_DIGITS], date, f"{len(files)} files", files)
