"""The journal beside half-written shards: what of which source is on the disk for good."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

import xxhash

from dayzero.adapters.transfer.output import JOURNAL, OutputFolder
from dayzero.codec import dump, load
from dayzero.errors import BadInputError


class Said(StrEnum):
    """What a line says of a source: it began to pass, bytes up to some are durable, it is whole, it is not as stated."""

    BEGAN = "began"
    PASSED = "passed"
    DONE = "done"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Line:
    """One fact. `identity` tells versions of a source apart; `tensors` are (rank file, tensor, digest) since the last line."""

    said: Said
    source: str
    identity: str = ""
    to: int = 0
    sha256: str | None = None
    verified: bool = False
    tensors: tuple[tuple[int, int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Head:
    """The first line: what is written, and into which of the layout's files."""

    layout: str
    targets: tuple[int, ...]


@dataclass(slots=True)
class Progress:
    """How far one source has come."""

    identity: str
    to: int = 0
    done: bool = False
    sha256: str | None = None
    verified: bool = False
    tensors: dict[tuple[int, int], str] = field(default_factory=dict)


class Journal:
    """Appends lines, each whole or not there; a torn last line is not read."""

    def __init__(self, folder: OutputFolder, head: Head) -> None:
        self._folder, self._head = folder, head
        self._descriptor: int | None = None

    def left(self) -> dict[str, Progress] | None:
        """How far the sources came in an earlier run of the same layout and targets, or None; appending goes on after it."""
        text = self._folder.read(JOURNAL)
        lines, length = _whole_lines(text or b"")
        try:
            if not lines or load(Head, lines[0]) != self._head:
                return None
            known = _read(load(Line, line) for line in lines[1:])
        except BadInputError:
            return None
        self._descriptor = self._folder.open(JOURNAL, os.O_WRONLY)
        os.ftruncate(self._descriptor, length)
        os.lseek(self._descriptor, length, os.SEEK_SET)
        return known

    def begin(self) -> None:
        """A new journal in place of any other."""
        self.close()
        self._descriptor = self._folder.open(JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self._append(dump(self._head))
        self._folder.sync()

    def add(self, lines: Iterable[Line]) -> None:
        """Write lines down for good."""
        self._append(*(dump(line) for line in lines))

    def close(self) -> None:
        """Let the file go."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def remove(self) -> None:
        """The work is committed."""
        self.close()
        self._folder.remove(JOURNAL)

    def _append(self, *documents: bytes) -> None:
        assert self._descriptor is not None
        text = b"".join(_sum(document) + b" " + document + b"\n" for document in documents)
        try:
            while text:
                text = text[os.write(self._descriptor, text) :]
            os.fsync(self._descriptor)
        except OSError as error:
            raise self._folder.refusal("the journal", error) from error


def _sum(document: bytes) -> bytes:
    return xxhash.xxh3_64_hexdigest(document).encode()


def _whole_lines(text: bytes) -> tuple[list[bytes], int]:
    lines, length = [], 0
    for line in text.splitlines(keepends=True):
        total, _, document = line.rstrip(b"\n").partition(b" ")
        if not line.endswith(b"\n") or total != _sum(document):
            break
        lines.append(document)
        length += len(line)
    return lines, length


def _read(lines: Iterable[Line]) -> dict[str, Progress]:
    known: dict[str, Progress] = {}
    for line in lines:
        if line.said is Said.BEGAN:
            known[line.source] = Progress(line.identity)
        elif line.said is Said.REJECTED:
            known.pop(line.source, None)
        elif (progress := known.get(line.source)) is not None:
            progress.to = max(progress.to, line.to)
            progress.done = progress.done or line.said is Said.DONE
            progress.sha256, progress.verified = line.sha256 or progress.sha256, line.verified or progress.verified
            progress.tensors.update(((target, place), digest) for target, place, digest in line.tensors)
    return known
