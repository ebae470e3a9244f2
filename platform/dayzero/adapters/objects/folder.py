"""The folder of a store: where things lie in it, and the locks under which they change."""

import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dayzero.disk import refusal, refusals_spoken
from dayzero.errors import BadInputError, DependencyError

_SHA256 = re.compile(r"[0-9a-f]{64}")
_STATED = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class StoreFolder:
    """`objects/ab/<sha256>`, `releases/<content id>.json`, `incoming/<stated digest>/…`, `models/<content id>/…`, `pins/`.

    Everything lies on one disk, so that a finished download gets its name without being moved. Names of our own making alone
    lead to paths here: every one is a digest.
    """

    root: Path

    @property
    def objects(self) -> Path:
        """The folder of objects."""
        return self.root / "objects"

    @property
    def incoming(self) -> Path:
        """The folder of downloads on their way."""
        return self.root / "incoming"

    @property
    def references(self) -> Path:
        """The folder of references."""
        return self.root / "releases"

    def object(self, sha256: str) -> Path:
        """Where an object lies or will lie."""
        return self.objects / _checked(_SHA256, sha256)[:2] / sha256

    def reference(self, content_id: str) -> Path:
        """Where the reference of a content lies or will lie."""
        return self.references / f"{_checked(_SHA256, content_id)}.json"

    def arriving(self, stated: str) -> Path:
        """The folder into which the file of a stated digest is downloaded."""
        return self.incoming / _checked(_STATED, stated)

    @property
    def models(self) -> Path:
        """The folder of views."""
        return self.root / "models"

    @property
    def quarantine(self) -> Path:
        """Where objects go whose bytes are not what their name says."""
        return self.root / "quarantine"

    def model(self, content_id: str) -> Path:
        """The folder that shows a content's files by their own names."""
        return self.models / _checked(_SHA256, content_id)

    def prepare(self) -> None:
        """Make the folders; DependencyError when the disk refuses."""
        for folder in (self.objects, self.references, self.incoming, self.models, self.root / "pins"):
            with refusals_spoken(folder):
                folder.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Alone among all processes: references and objects change only inside. Short; nothing is downloaded in it."""
        self.prepare()
        with self._locked(self.root / "lock", fcntl.LOCK_EX):
            yield

    @contextmanager
    def sole_download(self, stated: str, waiting: Callable[[], None]) -> Iterator[None]:
        """Alone with the download of one digest; `waiting` is called when another process has it and must be waited for."""
        path = self.incoming / f"{_checked(_STATED, stated)}.lock"
        with self._locked(path, fcntl.LOCK_EX, waiting):
            yield
            path.unlink(missing_ok=True)

    @contextmanager
    def unworked_download(self, stated: str) -> Iterator[bool]:
        """Whether nobody downloads that digest now; nobody begins while the context lasts."""
        try:
            with self._locked(self.incoming / f"{_checked(_STATED, stated)}.lock", fcntl.LOCK_EX | fcntl.LOCK_NB):
                yield True
        except BlockingIOError:
            yield False

    def pin(self, content_id: str) -> int:
        """A descriptor that keeps a content from being evicted until it is closed, or its process ends."""
        self.prepare()
        path = self._pin(content_id)
        with refusals_spoken(path):
            while True:
                descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
                fcntl.flock(descriptor, fcntl.LOCK_SH)
                if _is_open(path, descriptor):
                    return descriptor
                os.close(descriptor)

    @contextmanager
    def unpinned(self, content_id: str) -> Iterator[bool]:
        """Whether nobody has the content pinned; nobody pins it while the context lasts."""
        path = self._pin(content_id)
        try:
            with self._locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB):
                yield True
        except BlockingIOError:
            yield False

    def forget_pin(self, content_id: str) -> None:
        """Take away the file behind pins; only while it is `unpinned`."""
        self._pin(content_id).unlink(missing_ok=True)

    def sizes(self) -> dict[str, int]:
        """Bytes of every object by its sha256."""
        return {path.name: path.stat().st_size for path in self.objects.glob("??/*") if _SHA256.fullmatch(path.name)}

    def partial_sizes(self) -> dict[str, int]:
        """Bytes that are there of each download on its way, by stated digest."""
        folders = [path for path in self.incoming.glob("*") if _STATED.fullmatch(path.name) and path.is_dir()]
        return {folder.name: _bytes_under(folder) for folder in folders}

    def remove(self, path: Path) -> None:
        """Take a file, or a folder with all that is in it, away; links are not followed."""
        with refusals_spoken(path):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def _pin(self, content_id: str) -> Path:
        return self.root / "pins" / _checked(_SHA256, content_id)

    @contextmanager
    def _locked(self, path: Path, how: int, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
        """The file, made if need be, open and locked. A holder may have taken its name away: then a new one is opened."""
        while True:
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            except OSError as error:
                raise refusal(path, error) from error
            try:
                _lock(descriptor, how, waiting)
                if _is_open(path, descriptor):
                    yield
                    return
            finally:
                # Said and not only closed: a child that was forked meanwhile has the descriptor too.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                os.close(descriptor)


def _lock(descriptor: int, how: int, waiting: Callable[[], None]) -> None:
    if how & fcntl.LOCK_NB:
        fcntl.flock(descriptor, how)
        return
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        waiting()
        fcntl.flock(descriptor, how)


def _is_open(path: Path, descriptor: int) -> bool:
    with suppress(FileNotFoundError):
        return path.stat(follow_symlinks=False).st_ino == os.fstat(descriptor).st_ino
    return False


def _bytes_under(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.stat(follow_symlinks=False).st_size if path.is_file() and not path.is_symlink() else 0
    return total


def _checked(wanted: re.Pattern[str], digest: str) -> str:
    if not wanted.fullmatch(digest):
        raise BadInputError(f"{digest[:100]!r} is no digest in lower-case hex, so the store has no place for it.")
    return digest


def require_folder(root: Path) -> StoreFolder:
    """The store in a folder that is there already; DependencyError when there is none."""
    if not (root / "releases").is_dir():
        raise DependencyError(f"{root} is no store.", remedy="Add a release to it first: dayzero store add hf:org/name.")
    return StoreFolder(root)
