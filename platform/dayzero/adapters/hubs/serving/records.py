"""Records of shards that this host made: their manifests, found by release and plan, named by their digest."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dayzero.codec import load
from dayzero.domain.shards import ShardManifest
from dayzero.errors import BadInputError

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """A manifest's bytes and their sha256."""

    content: bytes
    sha256: str


class ShardRecords:
    """The complete manifests under folders of shards, looked for anew at every question."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        for folder in folders:
            if not folder.is_dir():
                raise BadInputError(f"{folder} is not a folder.", remedy="Name a folder that `dayzero fetch --out` wrote.")
        self._folders = tuple(folder.resolve() for folder in folders)

    def find(self, content_id: str, degrees: str) -> ShardRecord | None:
        """The record of a release under a plan whose sources all passed whole and checked; None when there is none.

        Manifests that cannot be read, and those of unchecked bytes, vouch for nothing.
        """
        for path in self._manifests():
            try:
                content = path.read_bytes()
                manifest = load(ShardManifest, content)
            except (OSError, BadInputError):
                continue
            if manifest.verified and manifest.content_id == content_id and str(manifest.degrees) == degrees:
                return ShardRecord(content, hashlib.sha256(content).hexdigest())
        return None

    def _manifests(self) -> Iterator[Path]:
        for folder in self._folders:
            for pattern in (MANIFEST, f"*/{MANIFEST}", f"*/*/{MANIFEST}"):
                for path in sorted(folder.glob(pattern)):
                    if path.is_file() and path.resolve().is_relative_to(folder):
                        yield path
