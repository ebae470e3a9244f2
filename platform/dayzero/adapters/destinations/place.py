"""One place that fsspec can open: small files, ranges, and files that appear whole."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import fsspec
from fsspec.implementations.local import LocalFileSystem

from dayzero.disk import make_durable, refusals_spoken
from dayzero.errors import BadInputError, BlockedError, DayzeroError, DependencyError, NotFoundError, UnavailableError

WINDOW_BYTES = 16 << 20
INCOMPLETE = ".incomplete"
_PART_BYTES = 50 << 20
_PARTS_AT_MOST = 9_000
_ACCESS = "Give this process access there (for S3: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role)."
_EXTRAS = {"s3": "s3", "s3a": "s3"}


class Place:
    """A folder at a URL. Names are relative POSIX paths that were checked before; every error is one of ours."""

    def __init__(self, url: str) -> None:
        """BadInputError: no such kind of URL. DependencyError: its package is not installed. Nothing is asked yet."""
        self.shown = _without_secrets(url)
        try:
            self._files, self._root = fsspec.core.url_to_fs(url, use_listings_cache=False)
        except ImportError as error:
            extra = _EXTRAS.get(urlsplit(url).scheme)
            remedy = f"pip install 'dayzero[{extra}]'" if extra else "Install it, or name another place"
            raise DependencyError(f"{self.shown} needs a package: {error}.", remedy=f"{remedy}.") from error
        except ValueError as error:
            raise BadInputError(
                f"{self.shown} is no place that can be opened: {error}.", remedy="Write s3://bucket/folder, or a folder here."
            ) from error
        self._local = isinstance(self._files, LocalFileSystem)

    def size(self, name: str) -> int | None:
        """Bytes of a file; None when it is not there."""
        with self._speaking(name):
            try:
                found = self._files.info(self._at(name))
            except FileNotFoundError:
                return None
        return int(found["size"]) if found.get("type") == "file" else None

    def read_small(self, name: str, max_bytes: int) -> bytes | None:
        """A whole small file; None when it is not there. BadInputError above max_bytes."""
        size_bytes = self.size(name)
        if size_bytes is None:
            return None
        if size_bytes > max_bytes:
            raise BadInputError(f"{name} at {self.shown} has {size_bytes} bytes, more than the {max_bytes} that are read.")
        return b"".join(self.windows(name, 0, size_bytes))

    def windows(self, name: str, begin: int, end: int) -> Iterator[bytes]:
        """The bytes [begin, end) of a file, window by window; UnavailableError when it gives fewer."""
        while begin < end:
            stop = min(begin + WINDOW_BYTES, end)
            with self._speaking(name):
                window: bytes = self._files.cat_file(self._at(name), start=begin, end=stop)
            if len(window) != stop - begin:
                raise UnavailableError(
                    f"{self.shown} gave {len(window)} of the {stop - begin} bytes from {begin} of {name}.",
                    remedy="Try again; what came is kept.",
                )
            yield window
            begin = stop

    def write(self, name: str, windows: Iterable[bytes], size_bytes: int = 0) -> None:
        """A file that appears whole, or not at all: an earlier one of its name stays until then.

        `size_bytes` is how many will come: one part of an upload is held in memory, and a file may have so many parts.
        """
        if self._local:
            self._write_here(Path(self._at(name)), windows)
            return
        with self._speaking(name):
            stream = self._files.open(self._at(name), "wb", block_size=part_bytes(size_bytes), autocommit=False)
        try:
            for window in windows:
                with self._speaking(name):
                    stream.write(window)
            with self._speaking(name):
                stream.close()
                stream.commit()
        except BaseException:
            # What the store has of it would cost its owner money, and closing would publish it cut short.
            with suppress(Exception):
                stream.discard()
                stream.closed = True
            raise

    def remove(self, name: str) -> None:
        """Take a file away, if it is there."""
        with self._speaking(name), suppress(FileNotFoundError):
            self._files.rm_file(self._at(name))

    def _write_here(self, target: Path, windows: Iterable[bytes]) -> None:
        partial = target.with_name(target.name + INCOMPLETE)
        with refusals_spoken(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("wb") as stream:
                for window in windows:
                    stream.write(window)
            make_durable(partial)
            partial.replace(target)
            make_durable(target.parent)

    def _at(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    @contextmanager
    def _speaking(self, name: str) -> Iterator[None]:
        """Whatever the place refuses, as one of our errors."""
        where = f"{name} at {self.shown}"
        try:
            yield
        except DayzeroError:
            raise
        except FileNotFoundError as error:
            raise NotFoundError(
                f"{where} is not there: {error}.", remedy="See the URL; a bucket must be made before."
            ) from error
        except PermissionError as error:
            raise BlockedError(f"{where} is closed to us: {error}.", remedy=_ACCESS) from error
        except OSError as error:
            if self._local:
                raise DependencyError(
                    f"{where}: {error.strerror or error}.", remedy="Name a folder that can be used."
                ) from error
            raise UnavailableError(f"{where} failed: {error}.", remedy="Try again later.") from error
        except _client_errors() as error:
            if "Credentials" in type(error).__name__ or "Token" in type(error).__name__:
                raise BlockedError(f"{where}: {error}.", remedy=_ACCESS) from error
            raise UnavailableError(
                f"{where} failed: {error}.", remedy="See whether the address is right (for S3: AWS_ENDPOINT_URL), or try later."
            ) from error


def part_bytes(size_bytes: int) -> int:
    """Bytes of one part of an upload: S3 takes at most 10,000 (Amazon S3 user guide, multipart upload limits)."""
    return max(_PART_BYTES, -(-size_bytes // _PARTS_AT_MOST))


def _client_errors() -> tuple[type[Exception], ...]:
    """The errors of clients that fsspec lets through, of those that are loaded."""
    found = []
    for module, name in (("botocore.exceptions", "BotoCoreError"), ("aiohttp", "ClientError")):
        if module in sys.modules:
            found.append(getattr(sys.modules[module], name))
    return tuple(found)


def _without_secrets(url: str) -> str:
    """The URL without user, password and query."""
    parts = urlsplit(url)
    if not parts.scheme:
        return url
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
