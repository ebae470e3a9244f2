"""A folder on this machine as a Hub: one model, or many as org/name."""

import hashlib
import os
from collections.abc import Generator, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from dayzero.adapters.hubs.cards import read_card
from dayzero.adapters.hubs.digests import DigestBook, windows
from dayzero.adapters.hubs.downloading import check_content, partial_file
from dayzero.domain.canonical import digest
from dayzero.domain.release import FileRole, HubKind, Release, RepoFile, content_id_of
from dayzero.domain.watching import RepoListing
from dayzero.errors import BadInputError, DependencyError, IntegrityError, NotFoundError
from dayzero.names import inside, safe_path
from dayzero.ports.hub import Progress
from dayzero.stages.configuration.quantization import SIDE_FILE
from dayzero.stages.headers.files import file_of
from dayzero.stages.headers.reading import MAX_INDEX_BYTES
from dayzero.stages.watching.roles import role_of
from dayzero.stages.watching.stages import index_to_read, stage_of

_WINDOW_BYTES = 4 << 20


class DirectoryHub:
    """The models under a folder. A model's repository id is its absolute path; its revision the digest of its files.

    Hidden and half-copied files (.NAME, NAME.incomplete, NAME.tmp) do not exist; links are followed inside the folder, and
    into the blobs of a hub cache when the folder is one of its snapshots. `digests` is a file that keeps digests between runs.
    """

    def __init__(self, root: Path, digests: Path | None = None) -> None:
        self.root = root.expanduser().resolve()
        if not self.root.is_dir():
            raise NotFoundError(f"{root} is not a folder.", remedy="Name a folder that holds a model, or models as org/name.")
        self._digests = DigestBook(digests)

    def list_repos(
        self, *, author: str | None, task: str | None, since: datetime | None, limit: int | None
    ) -> Iterator[RepoListing]:
        """The models, the last changed first. `author` is the folder above a model's."""
        found = []
        for home in self._homes():
            if author and home.parent.name.casefold() != author.casefold():
                continue
            changed = _changed_at(home)
            said = read_card(home / "README.md", home / "config.json").task
            if (since and changed < since) or (task and said != task):
                continue
            found.append((changed, home, said))
        found.sort(key=lambda row: (row[0], str(row[1])), reverse=True)
        for changed, home, said in found[:limit]:
            yield RepoListing(str(home), self._revision(self._files(home)), changed, said)

    def release(self, repo_id: str, revision: str | None) -> Release:
        """The model in a folder as it is now. NotFoundError: no such folder, or it holds other files than at that revision."""
        home = self._home(repo_id)
        files = self._files(home)
        if not files:
            raise NotFoundError(f"{home} holds no files.", remedy="Name a folder with config.json and weights.")
        now = self._revision(files)
        if revision is not None and revision != now:
            raise NotFoundError(
                f"{home} holds other files now (revision {now}) than at revision {revision}.",
                remedy="Resolve the model again: it is another now.",
            )
        index = index_to_read(files)
        content = None
        if index is not None and index.size_bytes <= MAX_INDEX_BYTES:
            content = self._content(home / index.path, index, f"dir:{home}")
        stage, _ = stage_of(files, content)
        return Release(HubKind.DIRECTORY, str(home), now, stage, files, content_id_of(files), published_at=_changed_at(home))

    def read_range(self, release: Release, path: str, begin: int, end: int) -> bytes:
        """Exactly the bytes [begin, end) of a file; IntegrityError when the file changed its size."""
        place, file = self._place(release.repo_id, path), file_of(release, path)
        if not 0 <= begin <= end <= file.size_bytes:
            raise BadInputError(
                f"bytes {begin} to {end} of {path} of {release.ref} are asked for; it has {file.size_bytes}.",
                remedy="Resolve the model again: it is another now.",
            )
        try:
            with place.open("rb") as stream:
                size_bytes = os.fstat(stream.fileno()).st_size
                stream.seek(begin)
                content = stream.read(end - begin)
        except OSError as error:
            raise _unreadable(place, error) from error
        if size_bytes != file.size_bytes or len(content) != end - begin:
            raise IntegrityError(
                f"{place} has {size_bytes} bytes now, and had {file.size_bytes}: it changed meanwhile.",
                remedy="Resolve the model again: it is another now.",
            )
        return content

    def stream(
        self, release: Release, path: str, ranges: Sequence[tuple[int, int]], *, connections: int = 1
    ) -> Generator[tuple[int, memoryview], None, None]:
        """(offset, window) of rising ranges of a file; IntegrityError when the file changed its size."""
        place, file = self._place(release.repo_id, path), file_of(release, path)
        try:
            source = place.open("rb", buffering=0)
        except OSError as error:
            raise _unreadable(place, error) from error
        with source:
            for begin, end in ranges:
                if not 0 <= begin <= end <= file.size_bytes:
                    raise BadInputError(
                        f"bytes {begin} to {end} of {path} of {release.ref} are beyond its {file.size_bytes}.",
                        remedy="Resolve the model again: it is another now.",
                    )
                source.seek(begin)
                while begin < end:
                    window = source.read(min(_WINDOW_BYTES, end - begin))
                    if not window or os.fstat(source.fileno()).st_size != file.size_bytes:
                        raise IntegrityError(
                            f"{place} had {file.size_bytes} bytes, and has not now: it changed meanwhile.",
                            remedy="Resolve the model again: it is another now.",
                        )
                    yield begin, memoryview(window)
                    begin += len(window)

    def read_small(self, release: Release, path: str, max_bytes: int) -> bytes:
        """A whole small file, checked against its digest; BadInputError above max_bytes."""
        place, file = self._place(release.repo_id, path), file_of(release, path)
        if file.size_bytes > max_bytes:
            raise BadInputError(
                f"{place} has {file.size_bytes} bytes, more than the {max_bytes} that are read of it.",
                remedy="It is no configuration or index; see what lies there.",
            )
        return self._content(place, file, str(release.ref))

    def download(self, release: Release, path: str, into: Path, progress: Progress | None) -> Path:
        """A copy under `into`, checked against its digest before it gets its name; resumed from `NAME.incomplete`."""
        place, file = self._place(release.repo_id, path), file_of(release, path)
        with partial_file(inside(into, path, str(release.ref)), file, str(release.ref)) as partial:
            if partial is None:
                return into / path
            try:
                source = place.open("rb")
            except OSError as error:
                raise _unreadable(place, error) from error
            with source:
                source.seek(partial.done_bytes)
                for window in windows(source):
                    partial.write(window)
                    if progress:
                        progress(partial.done_bytes, file.size_bytes)
            if partial.missing_bytes:
                raise IntegrityError(
                    f"{place} lacks {partial.missing_bytes} bytes that it had: it changed meanwhile.",
                    remedy="Resolve the model again: it is another now.",
                )
            return partial.finish()

    def _homes(self) -> Iterator[Path]:
        if _is_model(self.root):
            yield self.root
            return
        for path in sorted(self.root.glob("*")) + sorted(self.root.glob("*/*")):
            hidden = any(part.startswith(".") for part in path.relative_to(self.root).parts)
            if path.is_dir() and not hidden and path.resolve().is_relative_to(self.root) and _is_model(path):
                yield path

    def _home(self, repo_id: str) -> Path:
        home = Path(repo_id) if Path(repo_id).is_absolute() else self.root / safe_path(repo_id, str(self.root))
        if not home.is_dir():
            raise NotFoundError(f"{home} is not a folder.", remedy="See whether the model's folder was moved.")
        if not home.resolve().is_relative_to(self.root):
            raise BadInputError(
                f"{home} lies outside {self.root}.", remedy="Name a folder inside, without links that lead out."
            )
        return home

    def _files(self, home: Path) -> tuple[RepoFile, ...]:
        files = []
        for path in _visible(home, self.root):
            name = path.relative_to(home).as_posix()
            known = self._digests.digest(path)
            if known is not None:
                files.append(RepoFile(safe_path(name, str(home)), known.size_bytes, role_of(name), known.sha256))
        self._digests.keep()
        return tuple(sorted(files, key=lambda file: file.path))

    def _revision(self, files: tuple[RepoFile, ...]) -> str:
        return digest([(file.path, file.size_bytes, file.sha256) for file in files])

    def _place(self, repo_id: str, path: str) -> Path:
        return self._home(repo_id) / safe_path(path, repo_id)

    def _content(self, place: Path, file: RepoFile, whose: str) -> bytes:
        try:
            content = place.read_bytes()
        except OSError as error:
            raise _unreadable(place, error) from error
        return check_content(content, file, whose)


def config_release(path: Path) -> Release:
    """A bare config.json as a release: its path, its digest, and its configuration files. NotFoundError when there is none.

    A quantization side file (hf_quant_config.json) in the same folder belongs to it.
    """
    try:
        content = path.expanduser().resolve().read_bytes()
        beside = _side_of(path.expanduser().resolve())
        side = beside.read_bytes() if beside.is_file() else None
    except OSError as error:
        raise _unreadable(path, error) from error
    sha256 = hashlib.sha256(content).hexdigest()
    files: tuple[RepoFile, ...] = (RepoFile("config.json", len(content), FileRole.CONFIGURATION, sha256),)
    if side is not None:
        digest = hashlib.sha256(side).hexdigest()
        files = (*files, RepoFile(SIDE_FILE, len(side), FileRole.CONFIGURATION, digest))
        sha256 = hashlib.sha256(f"{sha256} {digest}".encode()).hexdigest()
    stage, _ = stage_of(files, None)
    place = str(path.expanduser().resolve())
    return Release(HubKind.CONFIG, place, sha256, stage, files, content_id_of(files))


class ConfigHub(DirectoryHub):
    """A bare configuration file as a Hub of one release: config.json, and its quantization side file where it has one."""

    def __init__(self, path: Path) -> None:
        self._path = path.expanduser().resolve()
        super().__init__(self._path.parent)

    def list_repos(
        self, *, author: str | None, task: str | None, since: datetime | None, limit: int | None
    ) -> Iterator[RepoListing]:
        """A configuration file is no place to watch."""
        raise BadInputError(f"{self._path} is a file.", remedy="Watch a hub, or a folder of models.")

    def release(self, repo_id: str, revision: str | None) -> Release:
        """The configuration as it is now; NotFoundError when it changed since that revision."""
        found = config_release(Path(repo_id))
        if revision is not None and revision != found.revision:
            raise NotFoundError(
                f"{repo_id} has changed since revision {revision}.", remedy="Resolve the model again: it is another now."
            )
        return found

    def _place(self, repo_id: str, path: str) -> Path:
        return _side_of(self._path) if path == SIDE_FILE else self._path


def _side_of(path: Path) -> Path:
    return path.parent / SIDE_FILE


def _is_model(folder: Path) -> bool:
    """Whether a folder is a model itself: a configuration, or weights, at its top."""
    return any(role_of(path.name) in (FileRole.CONFIGURATION, FileRole.WEIGHTS) for path in folder.iterdir() if path.is_file())


def _visible(home: Path, root: Path) -> Iterator[Path]:
    blobs = home.resolve().parent.parent / "blobs"
    for parent, folders, names in os.walk(home):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(parent) / name
            if name.startswith(".") or name.endswith((".incomplete", ".tmp", ".quarantine")) or not path.is_file():
                continue
            if path.resolve().is_relative_to(root) or path.resolve().is_relative_to(blobs):
                yield path


def _changed_at(home: Path) -> datetime:
    newest = max((path.stat().st_mtime for path in _visible(home, home.resolve())), default=0.0)
    return datetime.fromtimestamp(newest, UTC)


def _unreadable(path: Path, error: OSError) -> NotFoundError | DependencyError:
    if isinstance(error, FileNotFoundError | NotADirectoryError | IsADirectoryError):
        return NotFoundError(f"{path} is not a file that can be read.", remedy="See whether it is there, and who may read it.")
    return DependencyError(f"{path} cannot be read: {error.strerror or error}.", remedy="See who may read it.")
