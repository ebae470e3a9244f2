"""A wheel as a bag of texts: only members that are asked for are read, each within a limit."""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_string
from pathlib import Path, PurePosixPath

from dayzero.errors import BadInputError

MAX_MEMBERS = 200_000
MAX_MEMBER_BYTES = 16 * 2**20
"""The largest table or module known here has 1.1 MB."""

MAX_TEXT_BYTES = 256 * 2**20
"""What is read from one wheel in all."""

_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, ValueError, KeyError)
_PLAIN_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class Archive:
    """An open wheel. Every text that is read counts against the limits; BadInputError says which member breaks which."""

    def __init__(self, file: zipfile.ZipFile, name: str) -> None:
        self._file = file
        self._name = name
        self._read_bytes = 0
        self._members = _members(file, name)

    @property
    def names(self) -> frozenset[str]:
        """The names of all members."""
        return frozenset(self._members)

    def text(self, member: str) -> str:
        """A member as UTF-8 text; BadInputError when it is missing, too large, broken or no text."""
        info = self._members.get(member)
        if info is None:
            raise BadInputError(f"{self._name} has no {member}.", remedy="It is not the package it is taken for.")
        if info.file_size > MAX_MEMBER_BYTES:
            raise BadInputError(
                f"{self._name}: {member} has {info.file_size} bytes; more than {MAX_MEMBER_BYTES} are not read."
            )
        if info.compress_type not in _PLAIN_METHODS or info.flag_bits & 1:
            raise BadInputError(f"{self._name}: {member} is encrypted or packed by a method that wheels do not use.")
        try:
            with self._file.open(info) as stream:
                data = stream.read(MAX_MEMBER_BYTES + 1)
        except _BROKEN as error:
            raise BadInputError(f"{self._name}: {member} is broken: {error}.") from error
        self._read_bytes += len(data)
        if len(data) != info.file_size or self._read_bytes > MAX_TEXT_BYTES:
            raise BadInputError(f"{self._name}: {member} is not as large as the wheel says, or too much was read.")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadInputError(f"{self._name}: {member} is not UTF-8 text.") from error

    @property
    def metadata(self) -> tuple[str, str]:
        """Name and version as the wheel's own METADATA states them."""
        found = [name for name in self._members if name.endswith(".dist-info/METADATA") and name.count("/") == 1]
        if len(found) != 1:
            raise BadInputError(f"{self._name} is no wheel: it has {len(found)} METADATA files.")
        message = message_from_string(self.text(found[0]).partition("\n\n")[0])
        name, version = message.get("Name"), message.get("Version")
        if not name or not version:
            raise BadInputError(f"{self._name}: its METADATA states no name or no version.")
        return str(name), str(version)


@contextmanager
def open_wheel(path: Path) -> Iterator[Archive]:
    """The wheel at that path, open; BadInputError when it is none."""
    try:
        file = zipfile.ZipFile(path)
    except _BROKEN as error:
        raise BadInputError(f"{path.name} is not a wheel: {error}.", remedy="Name a .whl file.") from error
    with file:
        yield Archive(file, path.name)


def _members(file: zipfile.ZipFile, name: str) -> dict[str, zipfile.ZipInfo]:
    infos = file.infolist()
    if len(infos) > MAX_MEMBERS:
        raise BadInputError(f"{name} has {len(infos)} members; more than {MAX_MEMBERS} are not read.")
    members: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        path = PurePosixPath(info.filename)
        if path.is_absolute() or ".." in path.parts or "\\" in info.filename:
            raise BadInputError(f"{name} has a member that climbs out of it: {info.filename[:200]!r}.")
        if info.filename in members:
            raise BadInputError(f"{name} has {info.filename[:200]!r} twice, so what it holds depends on who reads it.")
        members[info.filename] = info
    return members
