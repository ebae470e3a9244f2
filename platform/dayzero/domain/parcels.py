"""Folders that lie complete at a destination: what is in them, said by one file that comes last."""

from dataclasses import dataclass

PARCEL = "dayzero-parcel.json"
"""The parcel's name at its destination. Where it is, everything that it lists is there."""


@dataclass(frozen=True, slots=True)
class ParcelFile:
    """One file of a parcel: relative POSIX path, size and sha256."""

    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Parcel:
    """The files of one folder of shards, or of one release, and the content that they are of."""

    content_id: str
    files: tuple[ParcelFile, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size_bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class Moved:
    """A parcel that came whole: where to (or from), the bytes that were moved for it, and those that were there already."""

    parcel: Parcel
    place: str
    moved_bytes: int
    kept_bytes: int
