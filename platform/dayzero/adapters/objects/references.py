"""References of a store: one small file a content, written whole or not at all."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from dayzero.adapters.objects.folder import StoreFolder
from dayzero.codec import dump, load
from dayzero.disk import refusals_spoken, write_whole
from dayzero.domain.release import Release, RepoFile
from dayzero.domain.stored import StoredRelease, stated_digest
from dayzero.errors import BadInputError


class References:
    """What is written under `releases/`. The time of a file is when its content was used last."""

    def __init__(self, folder: StoreFolder) -> None:
        self._folder = folder
        self._known: dict[Path, tuple[tuple[int, int, int], StoredRelease]] = {}

    def all(self) -> tuple[StoredRelease, ...]:
        """Every reference, by content id; BadInputError names one that cannot be read: nothing may be taken then."""
        return tuple(
            self._read(path) for path in sorted(self._folder.references.glob("*.json")) if not path.name.startswith(".")
        )

    def find(self, content_id: str) -> StoredRelease | None:
        """The reference of a content; None when there is none."""
        path = self._folder.reference(content_id)
        return self._read(path) if path.is_file() else None

    def write(self, reference: StoredRelease) -> None:
        """Keep a reference, durably. Whoever calls is alone (`changing`), and every object that it names is there."""
        write_whole(self._folder.reference(reference.content_id), dump(reference))

    def remove(self, content_id: str) -> None:
        """Take a reference away."""
        self._folder.remove(self._folder.reference(content_id))

    def used_at_s(self, content_id: str) -> float:
        """When the content was used last (seconds since the epoch)."""
        return self._folder.reference(content_id).stat().st_mtime

    def touch(self, content_id: str) -> None:
        """The content is used now. A folder that cannot be written keeps its times."""
        with suppress(OSError):
            os.utime(self._folder.reference(content_id))

    def known_objects(self) -> Mapping[str, str]:
        """The objects of stated digests, as the references know them; a sha256 is the name of its object anyway."""
        return {stated: name for one in self.all() for stated, name in one.objects.items()}

    def _read(self, path: Path) -> StoredRelease:
        """The reference in a file, parsed once for each version of it: a server asks at every request."""
        with refusals_spoken(path):
            found = path.stat()
        version = (found.st_ino, found.st_size, found.st_mtime_ns)
        known = self._known.get(path)
        if known is None or known[0] != version:
            known = self._known[path] = (version, _read(path))
        return known[1]


def with_release(reference: StoredRelease | None, release: Release, files: Sequence[RepoFile]) -> StoredRelease:
    """The reference with that revision and these files of it asked for; BadInputError for a file without a digest."""
    wanted = []
    for file in files:
        stated = stated_digest(file)
        if stated is None:
            raise BadInputError(f"{release.ref}: no digest is stated of {file.path}, so it cannot be stored.")
        wanted.append(stated)
    if reference is None:
        reference = StoredRelease(release.content_id, ())
    others = tuple(one for one in reference.releases if one.ref != release.ref or one.endpoint != release.endpoint)
    return replace(reference, releases=(*others, release), wanted=tuple(dict.fromkeys((*reference.wanted, *wanted))))


def _read(path: Path) -> StoredRelease:
    try:
        with refusals_spoken(path):
            reference = load(StoredRelease, path.read_bytes())
    except BadInputError as error:
        raise BadInputError(
            f"{path} is no reference that can be read: {error.message}",
            remedy="Nothing is evicted meanwhile. Take the file away (its release is fetched again when it is needed).",
        ) from error
    if path.stem != reference.content_id:
        raise BadInputError(
            f"{path} refers to the content {reference.content_id[:12]}.", remedy="Give the file its own name back."
        )
    return reference
