"""What lies in the served folder: repositories, their visible files, and their commits."""

import hashlib
import json
import os
import re
import shutil
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from dayzero.adapters.hubs.digests import DigestBook, git_blob_id
from dayzero.disk import write_whole
from dayzero.errors import BadInputError
from dayzero.stages.watching.roles import WEIGHT_SUFFIXES

LFS_ABOVE_BYTES = 1 << 20
"""Files above 1 MiB, and weights of any size, are LFS files."""

_COMMITS_KEPT = 200
_ID_DIGITS = 40
_PART = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,95}$")


@dataclass(frozen=True, slots=True)
class ServedFile:
    """A file of a commit. `oid` is what it is stored and addressed by: sha256 for LFS files, git blob id else."""

    path: str
    size_bytes: int
    oid: str
    lfs: bool

    @property
    def lfs_pointer(self) -> bytes:
        """The pointer file that git holds in place of an LFS file (Git LFS specification, version 1)."""
        return f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.oid}\nsize {self.size_bytes}\n".encode()


@dataclass(frozen=True, slots=True)
class Commit:
    """One state of a repository's files. `id` is a sha1 over them alone: the same files give the same id anywhere."""

    id: str
    date: str
    title: str
    files: tuple[ServedFile, ...]

    @property
    def when(self) -> datetime:
        """The date, parsed."""
        return datetime.fromisoformat(self.date)


@dataclass(frozen=True, slots=True)
class RepoHistory:
    """A repository's commits, the oldest first; never empty."""

    repo_id: str
    commits: tuple[Commit, ...]

    @property
    def head(self) -> Commit:
        """The newest commit."""
        return self.commits[-1]

    def find(self, revision: str) -> Commit | None:
        """The commit of a branch name (main), a full id, or an id's first seven or more digits."""
        if revision in ("main", "HEAD"):
            return self.head
        if not re.fullmatch(r"[0-9a-f]{7,40}", revision):
            return None
        return next((commit for commit in reversed(self.commits) if commit.id.startswith(revision)), None)


class Served(Protocol):
    """What a hub is served from: repositories with their commits, and where the bytes of a file lie."""

    def repo_ids(self) -> list[str]:
        """Every repository, sorted."""
        ...

    def history(self, repo_id: str) -> RepoHistory | None:
        """The repository with its commits; None when there is none."""
        ...

    def known_commit(self, repo_id: str, revision: str) -> tuple[RepoHistory, Commit] | None:
        """A commit by its full id, where that can be told without a new look."""
        ...

    def locate(self, repo_id: str, file: ServedFile) -> Path | None:
        """Where the bytes of that version of the file lie; None when they are not here."""
        ...

    def why_not_here(self, file: ServedFile, commit: Commit) -> str:
        """One sentence about a file whose bytes are not here."""
        ...


class ServedFolder:
    """Repositories under `folder` as org/name/files, with their history in `state`.

    Each question looks at the disk anew; a change of any visible file makes a commit. Old versions of files up to 1 MiB are
    copied to the state folder and stay; old versions of larger files are not kept.
    """

    def __init__(self, folder: Path, state: Path | None = None) -> None:
        self.folder = folder.resolve()
        if not self.folder.is_dir():
            raise BadInputError(f"{folder} is not a folder.", remedy="Name a folder that holds org/name/ model folders.")
        self.state = state or self.folder.parent / f".{self.folder.name}.dayzero-hub"
        self._digests = DigestBook(self.state / "digests.json")
        self._histories: dict[str, RepoHistory] = {}
        self._locks: dict[str, threading.Lock] = {}
        try:
            self.state.mkdir(parents=True, exist_ok=True)
            writable = os.access(self.state, os.W_OK)
        except OSError:
            writable = False
        if not writable:
            raise BadInputError(
                f"the hub cannot keep its commits in {self.state}.", remedy="Name a folder that it may write to, with --state."
            )

    def repo_ids(self) -> list[str]:
        """Every org/name folder that holds a visible file, sorted."""
        found = []
        for org in _folders(self.folder):
            found += [f"{org.name}/{repo.name}" for repo in _folders(org) if next(self._visible(repo), None)]
        return sorted(found)

    def history(self, repo_id: str) -> RepoHistory | None:
        """The repository with its present files as head; None when there is none."""
        parts = repo_id.split("/")
        if len(parts) != 2 or not all(_PART.match(part) for part in parts):
            return None
        home = self.folder / repo_id
        if not home.is_dir() or not home.resolve().is_relative_to(self.folder):
            return None
        with self._locks.setdefault(repo_id, threading.Lock()):
            return self._look_again(repo_id, home)

    def known_commit(self, repo_id: str, revision: str) -> tuple[RepoHistory, Commit] | None:
        """A commit by its full id, if it was seen before: it cannot change, so the folder is not walked again for it."""
        history = self._histories.get(repo_id) if len(revision) == _ID_DIGITS else None
        commit = history.find(revision) if history else None
        return (history, commit) if history and commit and (self.folder / repo_id).is_dir() else None

    def locate(self, repo_id: str, file: ServedFile) -> Path | None:
        """Where the bytes of that version of the file lie; None when they are gone."""
        now = self.folder / repo_id / file.path
        if self._is_visible(now):
            digest = self._digests.digest(now)
            if digest is not None and file.oid == (digest.sha256 if file.lfs else digest.git_blob_id):
                return now
        kept = self._blob(file.oid)
        return kept if kept.is_file() else None

    def why_not_here(self, file: ServedFile, commit: Commit) -> str:
        """One sentence about a file that had another version in that commit."""
        return (
            f"{file.path} of commit {commit.id} is gone: the folder holds another version now, and old versions are kept only"
            f" up to 1 MiB (this one had {file.size_bytes} bytes)."
        )

    def _look_again(self, repo_id: str, home: Path) -> RepoHistory | None:
        files, changed_at = self._files_of(home)
        self._digests.keep()
        history = self._histories.get(repo_id) or _read_history(self._history_file(repo_id), repo_id)
        if not files:
            return None
        commit_id = hashlib.sha1(
            json.dumps([(file.path, file.size_bytes, file.oid) for file in files]).encode(), usedforsecurity=False
        ).hexdigest()
        if history is None or history.head.id != commit_id:
            history = self._commit(history, repo_id, home, commit_id, files, changed_at)
        self._histories[repo_id] = history
        return history

    def _files_of(self, home: Path) -> tuple[tuple[ServedFile, ...], float]:
        files, changed_at = [], 0.0
        for path in sorted(self._visible(home)):
            digest = self._digests.digest(path)
            if digest is None:
                continue
            lfs = digest.size_bytes > LFS_ABOVE_BYTES or path.suffix.lower() in WEIGHT_SUFFIXES
            oid = digest.sha256 if lfs else digest.git_blob_id
            files.append(ServedFile(path.relative_to(home).as_posix(), digest.size_bytes, oid, lfs))
            try:
                changed_at = max(changed_at, path.stat().st_ctime)
            except OSError:
                continue
        return tuple(files), changed_at

    def _commit(
        self, history: RepoHistory | None, repo_id: str, home: Path, commit_id: str, files: tuple[ServedFile, ...], at: float
    ) -> RepoHistory:
        for file in files:
            if file.size_bytes <= LFS_ABOVE_BYTES and not self._blob(file.oid).exists():
                self._keep_blob(home / file.path, file)
        earlier = () if history is None else history.commits
        date = datetime.fromtimestamp(at, UTC)
        if earlier:
            date = max(date, earlier[-1].when)
        title = _title(earlier[-1].files if earlier else (), files)
        commit = Commit(commit_id, date.isoformat(timespec="milliseconds"), title, files)
        kept = tuple(old for old in earlier if old.id != commit_id)[-_COMMITS_KEPT:]
        new = RepoHistory(repo_id, (*kept, commit))
        write_whole(self._history_file(repo_id), json.dumps([asdict(old) for old in new.commits]).encode())
        return new

    def _keep_blob(self, source: Path, file: ServedFile) -> None:
        try:
            content = source.read_bytes()
        except OSError:
            return
        if file.oid == (hashlib.sha256(content).hexdigest() if file.lfs else git_blob_id(content)):
            write_whole(self._blob(file.oid), content)

    def _blob(self, oid: str) -> Path:
        return self.state / "blobs" / oid[:2] / oid

    def _history_file(self, repo_id: str) -> Path:
        return self.state / "history" / f"{repo_id}.json"

    def _visible(self, home: Path) -> Iterator[Path]:
        for parent, folders, names in os.walk(home):
            folders[:] = [name for name in folders if _shown(name)]
            for name in names:
                path = Path(parent) / name
                if _shown(name) and self._is_visible(path):
                    yield path

    def _is_visible(self, path: Path) -> bool:
        """Regular files, and links to regular files that stay inside the folder."""
        return path.is_file() and path.resolve().is_relative_to(self.folder)


def _folders(parent: Path) -> list[Path]:
    return [path for path in parent.iterdir() if path.is_dir() and _PART.match(path.name)]


def _shown(name: str) -> bool:
    """Hidden and half-copied files do not exist for clients; neither do names that no URL can carry."""
    return not name.startswith(".") and not name.endswith((".incomplete", ".tmp")) and name.isprintable() and "\\" not in name


def _title(before: tuple[ServedFile, ...], after: tuple[ServedFile, ...]) -> str:
    old, new = {file.path: file.oid for file in before}, {file.path: file.oid for file in after}
    parts = [
        ("Add", [path for path in new if path not in old]),
        ("Change", [path for path in new if path in old and new[path] != old[path]]),
        ("Remove", [path for path in old if path not in new]),
    ]
    said = [f"{verb} {paths[0]}" + (f" and {len(paths) - 1} more" if len(paths) > 1 else "") for verb, paths in parts if paths]
    return "; ".join(said) or "Same files"


def _read_history(path: Path, repo_id: str) -> RepoHistory | None:
    """The kept history; a file that cannot be read is set aside and the history begins anew."""
    try:
        rows = json.loads(path.read_bytes())
        commits = tuple(
            Commit(row["id"], row["date"], row["title"], tuple(ServedFile(**file) for file in row["files"])) for row in rows
        )
        return RepoHistory(repo_id, commits) if commits else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError):
        shutil.move(path, path.with_suffix(".unreadable"))
        return None
