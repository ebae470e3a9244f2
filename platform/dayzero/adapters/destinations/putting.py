"""Putting: files first, the manifest after them, the parcel last; what an earlier run of the same parcel put is kept."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from dayzero.adapters.destinations.place import WINDOW_BYTES, Place
from dayzero.codec import dump, load
from dayzero.domain.canonical import digest
from dayzero.domain.parcels import PARCEL, Moved, Parcel, ParcelFile
from dayzero.errors import BadInputError, IntegrityError
from dayzero.names import safe_path
from dayzero.ports.hub import Progress

LARGEST_PARCEL_BYTES = 64 << 20
_LAST = ("manifest.json",)
"""Files that say of others that they are there: they come after those."""


def put_files(files: Mapping[str, Path], content_id: str, url: str, progress: Progress | None = None) -> Moved:
    """Put files, by the names that they have there, to a URL: whoever finds the parcel there finds all of them.

    An older parcel is taken away first, so that nobody takes a mixture for one. A run that was stopped is gone on with, file by
    file. IntegrityError: a file changed while it was sent, or the place holds another size. Other errors: see Place.
    """
    place = Place(url)
    parcel = parcel_of(files, content_id)
    begun = f".{PARCEL}.{digest(parcel)[:16]}.begun"
    if found_parcel(place) == parcel and not _absent(place, parcel.files):
        return Moved(parcel, place.shown, 0, parcel.size_bytes)
    place.remove(PARCEL)
    if place.size(begun) is None:
        # What has the right size now may be another file; what has it beside the mark was put by a run of this parcel.
        for file in parcel.files:
            place.remove(file.path)
        place.write(begun, [dump(parcel)])
    missing = _absent(place, parcel.files)
    kept = done = parcel.size_bytes - sum(file.size_bytes for file in missing)
    for file in manifest_last(missing):
        place.write(file.path, _sent(files[file.path], file, done, parcel.size_bytes, progress), file.size_bytes)
        done += file.size_bytes
    wrong = _absent(place, parcel.files)
    if wrong:
        raise IntegrityError(
            f"{place.shown} holds other sizes than were put there, of {', '.join(file.path for file in wrong[:5])}.",
            remedy="See who else writes there, then put it again.",
        )
    place.write(PARCEL, [dump(parcel)])
    place.remove(begun)
    return Moved(parcel, place.shown, parcel.size_bytes - kept, kept)


def parcel_of(files: Mapping[str, Path], content_id: str) -> Parcel:
    """The parcel of these files as they are now; BadInputError for a name that climbs out, or nothing to put."""
    if not files:
        raise BadInputError("there is nothing to put: no file was named.")
    rows = []
    for name, path in sorted(files.items()):
        if safe_path(name, "the parcel").startswith((PARCEL, f".{PARCEL}")):
            raise BadInputError(f"{name} has the name of a parcel, and cannot lie in one.", remedy="Rename it.")
        whole, size_bytes = hashlib.sha256(), 0
        with path.open("rb") as stream:
            while window := stream.read(WINDOW_BYTES):
                whole.update(window)
                size_bytes += len(window)
        rows.append(ParcelFile(name, size_bytes, whole.hexdigest()))
    return Parcel(content_id, tuple(rows))


def found_parcel(place: Place) -> Parcel | None:
    """The parcel at a place; None when there is none. BadInputError: it cannot be read."""
    content = place.read_small(PARCEL, LARGEST_PARCEL_BYTES)
    return load(Parcel, content) if content is not None else None


def manifest_last(files: Iterable[ParcelFile]) -> list[ParcelFile]:
    """In the order of moving: by path, and what says of others that they are there after those."""
    return sorted(files, key=lambda one: (one.path.rpartition("/")[2] in _LAST, one.path))


def _absent(place: Place, files: Sequence[ParcelFile]) -> list[ParcelFile]:
    return [file for file in files if place.size(file.path) != file.size_bytes]


def _sent(path: Path, file: ParcelFile, before: int, total: int, progress: Progress | None) -> Iterator[bytes]:
    whole, sent = hashlib.sha256(), 0
    with path.open("rb") as stream:
        while window := stream.read(WINDOW_BYTES):
            whole.update(window)
            sent += len(window)
            yield window
            if progress is not None:
                progress(before + sent, total)
    if whole.hexdigest() != file.sha256:
        raise IntegrityError(f"{path} changed while it was sent; nothing of that name appeared.", remedy="Put it again.")
