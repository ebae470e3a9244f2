"""A vault on Fernet (AES-128-CBC with HMAC-SHA256, https://github.com/fernet/spec), under the keys of one file."""

import os
import stat
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from dayzero.disk import refusals_spoken, write_whole
from dayzero.errors import BadInputError, DependencyError

LOCKED = "locked:"
_KEPT_KEYS = 2
_LARGEST_FILE_BYTES = 64 * 1024


class FernetVault:
    """ports.telling.Vault on a key file, made when it is first needed; read anew when another process has rotated it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_at: tuple[int, int] | None = None
        self._keys: MultiFernet | None = None

    def lock(self, text: str) -> str:
        """The text, encrypted with the newest key, which is made if there is none yet."""
        if not self._path.exists():
            _make(self._path, [Fernet.generate_key().decode()])
        return LOCKED + self._fernet().encrypt(text.encode()).decode()

    def unlock(self, locked: str) -> str:
        """The text again; text that was never locked is given back. DependencyError: no key of the file fits."""
        if not locked.startswith(LOCKED):
            return locked
        try:
            return self._fernet().decrypt(locked.removeprefix(LOCKED).encode()).decode()
        except (InvalidToken, ValueError) as error:
            raise DependencyError(
                f"no key in {self._path} opens the addresses and secrets of subscribers.",
                remedy="Put the key file back (DAYZERO_SECRETS_KEY), or remove the subscription and subscribe again.",
            ) from error

    def new_key(self) -> None:
        """A new key before the others; the newest of them is kept, for what a running process is about to lock with it."""
        before = _read(self._path) if self._path.exists() else []
        keys = [Fernet.generate_key().decode(), *before][:_KEPT_KEYS]
        with refusals_spoken(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, _content(keys), mode=0o600)

    def _fernet(self) -> MultiFernet:
        try:
            found = self._path.stat()
        except FileNotFoundError as error:
            raise DependencyError(f"the key file {self._path} is gone.", remedy="Put it back from a backup.") from error
        version = (found.st_mtime_ns, found.st_ino)
        if self._keys is None or version != self._read_at:
            self._keys = MultiFernet([Fernet(key) for key in _read(self._path)])
            self._read_at = version
        return self._keys


def _content(keys: list[str]) -> bytes:
    return ("\n".join(keys) + "\n").encode()


def _make(path: Path, keys: list[str]) -> None:
    """Write a first key, unless another process was faster."""
    with refusals_spoken(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(_content(keys))
            stream.flush()
            os.fsync(stream.fileno())
        try:
            os.link(partial, path)
        except FileExistsError:
            pass
        finally:
            partial.unlink(missing_ok=True)


def _read(path: Path) -> list[str]:
    try:
        with path.open("rb") as stream:
            if stat.S_IMODE(os.fstat(stream.fileno()).st_mode) & 0o077:
                raise BadInputError(f"others than its owner have access to {path}.", remedy=f"chmod 600 {path}")
            lines = stream.read(_LARGEST_FILE_BYTES).decode("ascii", "replace").split()
        for key in lines:
            Fernet(key)
    except ValueError as error:
        raise BadInputError(f"{path} holds no keys of subscribers' secrets.", remedy="Put it back from a backup.") from error
    if not lines:
        raise BadInputError(f"{path} is empty.", remedy="Put it back from a backup.")
    return lines
