"""Taking: what a parcel lists, each file checked against its sha256 before it gets its name, the manifest last."""

import hashlib
import os
import re
from collections import Counter
from pathlib import Path
from typing import BinaryIO

from dayzero.adapters.destinations.place import INCOMPLETE, WINDOW_BYTES, Place
from dayzero.adapters.destinations.putting import found_parcel, manifest_last
from dayzero.counting import part_of
from dayzero.disk import make_durable, refusals_spoken, require_space
from dayzero.domain.parcels import PARCEL, Moved, Parcel, ParcelFile
from dayzero.errors import BadInputError, IntegrityError, NotFoundError
from dayzero.names import inside
from dayzero.ports.hub import Progress

QUARANTINE = ".quarantine"
_SHA256 = re.compile(r"[0-9a-f]{64}")


def take_files(url: str, into: Path, progress: Progress | None = None) -> Moved:
    """The files of the parcel at a URL under a folder. Those that are there and right stay; a broken run is gone on with.

    NotFoundError: no parcel is there, or its putting never ended. BadInputError: it names files that climb out, or one twice.
    DependencyError: no space, said before the first byte. IntegrityError: bytes that differ are kept under a quarantine name.
    """
    place = Place(url)
    parcel = found_parcel(place)
    if parcel is None:
        raise NotFoundError(
            f"{place.shown} has no {PARCEL}: nothing was put there, or not to its end.", remedy="See the URL, or put it again."
        )
    targets = _targets(parcel, into, place.shown)
    with refusals_spoken(into):
        into.mkdir(parents=True, exist_ok=True)
    missing = [file for file in parcel.files if not _is_right(targets[file.path], file)]
    require_space(into, sum(file.size_bytes for file in missing), f"taking {place.shown}")
    kept = done = parcel.size_bytes - sum(file.size_bytes for file in missing)
    moved = 0
    for file in manifest_last(missing):
        moved += _take(place, file, targets[file.path], part_of(progress, done, parcel.size_bytes))
        done += file.size_bytes
    return Moved(parcel, str(into), moved, kept)


def _targets(parcel: Parcel, into: Path, whose: str) -> dict[str, Path]:
    twice = [path for path, count in Counter(file.path for file in parcel.files).items() if count > 1]
    if twice:
        raise BadInputError(f"the parcel at {whose} lists {twice[0][:200]!r} twice.")
    for file in parcel.files:
        if not _SHA256.fullmatch(file.sha256) or file.size_bytes < 0 or file.path.endswith((INCOMPLETE, QUARANTINE)):
            raise BadInputError(f"the parcel at {whose} lists {file.path[:200]!r} with no usable name, size or sha256.")
    return {file.path: inside(into, file.path, f"the parcel at {whose}") for file in parcel.files}


def _take(place: Place, file: ParcelFile, target: Path, progress: Progress | None) -> int:
    """Bytes that came for it."""
    partial = target.with_name(target.name + INCOMPLETE)
    with refusals_spoken(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_file() and not target.is_symlink():
            target.replace(target.with_name(f"{target.name}.replaced{QUARANTINE}"))
        descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        with os.fdopen(descriptor, "r+b") as stream:
            whole, begin = _hashed(stream, file.size_bytes)
            came = 0
            for window in place.windows(file.path, begin, file.size_bytes):
                stream.write(window)
                whole.update(window)
                came += len(window)
                if progress is not None:
                    progress(begin + came, file.size_bytes)
        if whole.hexdigest() != file.sha256:
            aside = target.with_name(f"{target.name}.{whole.hexdigest()[:12]}{QUARANTINE}")
            partial.replace(aside)
            raise IntegrityError(
                f"{file.path} at {place.shown} has sha256 {whole.hexdigest()}, and its parcel says {file.sha256};"
                f" what came is kept as {aside.name}.",
                remedy="Try again; if it stays so, put it there again.",
            )
        make_durable(partial)
        partial.replace(target)
        make_durable(target.parent)
    return came


def _hashed(stream: BinaryIO, size_bytes: int) -> "tuple[hashlib._Hash, int]":
    """The hash over what an earlier run left, and where it ends."""
    if os.fstat(stream.fileno()).st_size > size_bytes:
        stream.truncate(0)
    whole = hashlib.sha256()
    while window := stream.read(WINDOW_BYTES):
        whole.update(window)
    return whole, stream.tell()


def _is_right(target: Path, file: ParcelFile) -> bool:
    if target.is_symlink() or not target.is_file() or target.stat().st_size != file.size_bytes:
        return False
    with target.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256
