"""The store: files of releases, each held once by its sha256, fetched by one process for all who ask at the same time."""

import hashlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from dayzero.adapters.objects.folder import StoreFolder
from dayzero.adapters.objects.leases import Leases
from dayzero.adapters.objects.references import References, with_release
from dayzero.adapters.objects.rooms import Rooms, Tell
from dayzero.adapters.objects.views import QUARANTINE, show
from dayzero.disk import make_durable, refusals_spoken
from dayzero.domain.release import Release, RepoFile
from dayzero.domain.stored import Evicted, StoredRelease, StoreUse, Swept, stated_digest
from dayzero.errors import BadInputError, DependencyError, IntegrityError
from dayzero.names import inside
from dayzero.ports.hub import Hub, Progress

INCOMPLETE = ".incomplete"
SHA256_DIGITS = 64


class ObjectStore:
    """A store in a folder, shared by the processes of this host (and of others, where `flock` holds on the folder).

    An object appears only after its bytes had the digest that the hub stated. How often an object is referred to is counted
    from the references, and kept nowhere. `limit_bytes` bounds objects and downloads on their way; `tell` takes one sentence
    for each eviction and each wait.
    """

    def __init__(self, root: Path, limit_bytes: int | None = None, tell: Tell = lambda said: None) -> None:
        self.folder = StoreFolder(root.absolute())
        self.references = References(self.folder)
        self.rooms = Rooms(self.folder, self.references, limit_bytes, tell)
        self._tell = tell
        self._held: dict[str, int] = {}
        self._holding = threading.Lock()
        self._leases = Leases(self.folder.pin)

    def use(self) -> StoreUse:
        """What the store holds."""
        return self.rooms.use()

    def releases(self) -> tuple[StoredRelease, ...]:
        """What it refers to, by content id."""
        return self.references.all()

    def object(self, sha256: str) -> Path | None:
        """Where an object lies; None when it is not here."""
        place = self.folder.object(sha256)
        return place if place.is_file() else None

    def held(self, release: Release, file: RepoFile) -> Path | None:
        """The object of a file that a reference of the same content holds in its full size; None when there is none."""
        reference = self.references.find(release.content_id)
        name = reference.object_of(file) if reference is not None else None
        place = self.object(name) if name is not None else None
        return place if place is not None and place.stat().st_size == file.size_bytes else None

    def used(self, content_id: str) -> None:
        """Note that a content is used now."""
        self.references.touch(content_id)

    @contextmanager
    def pinned(self, content_id: str) -> Iterator[None]:
        """No eviction of the content while the context lasts."""
        pin = self.folder.pin(content_id)
        try:
            yield
        finally:
            os.close(pin)

    def hold(self, content_id: str) -> None:
        """No eviction of the content as long as this process lives, or until `let_go`."""
        pin = self.folder.pin(content_id)
        with self._holding:
            earlier = self._held.pop(content_id, None)
            self._held[content_id] = pin
        if earlier is not None:
            os.close(earlier)

    def lease(self, content_id: str) -> None:
        """The content is used now, and not evicted for some minutes; a folder that cannot be written is only read."""
        with suppress(DependencyError):
            if self._leases.renew(content_id):
                self.used(content_id)

    def let_go(self) -> None:
        """End every `hold` and every `lease`."""
        self._leases.close()
        with self._holding:
            for pin in self._held.values():
                os.close(pin)
            self._held.clear()

    @contextmanager
    def taking(self, release: Release, files: Sequence[RepoFile]) -> Iterator[tuple[Evicted, ...]]:
        """Room for these files of a release, promised and pinned while the context lasts; what had to go for it.

        BlockedError before the first byte when they do not fit under the limit; DependencyError when the disk is too full.
        """
        with self.pinned(release.content_id):
            with self.folder.changing():
                reference = with_release(self.references.find(release.content_id), release, files)
                evicted = self.rooms.make(replace(reference, objects=self._here(reference)))
            yield evicted

    def obtain(self, hub: Hub, release: Release, file: RepoFile, progress: Progress | None = None) -> Path:
        """The object of a file, fetched from the hub when no process has it yet; who comes second waits, and finds it.

        What a killed download left is gone on with. Errors are those of `hub.download`.
        """
        stated = stated_digest(file)
        if stated is None:
            raise IntegrityError(f"{release.ref}: no digest is stated of {file.path}, so it cannot be stored.")
        if (place := self._adopted(release, file)) is not None:
            return place
        with self.folder.sole_download(stated, lambda: self._tell(f"Waiting for {file.path}: another process fetches it.")):
            if (place := self._adopted(release, file)) is not None:
                return place
            folder = self.folder.arriving(stated)
            _same_name(folder, file, str(release.ref))
            try:
                came = hub.download(release, file.path, folder, progress)
            except IntegrityError:
                self._keep_evidence(folder, stated)
                raise
            name = file.sha256 or _sha256(came)
            with self.folder.changing():
                place = self._placed(came, name)
                self._refer(release, file, name)
            self.folder.remove(folder)
        return place

    def show(self, release: Release, file: RepoFile, place: Path, into: Path) -> Path:
        """The file under `into` by its own name: another name of the object, not another copy."""
        return show(place, file, into, str(release.ref))

    def evict(self, content_ids: Sequence[str], why: str) -> tuple[Evicted, ...]:
        """Let these contents go; BadInputError names those that are not here. Pinned ones stay."""
        with self.folder.changing():
            known = {one.content_id for one in self.references.all()}
            unknown = sorted(set(content_ids) - known)
            if unknown:
                raise BadInputError(f"the store holds no content {unknown[0][:64]}.", remedy="See `dayzero store ls`.")
            return tuple(gone for one in content_ids if (gone := self.rooms.evict(one, why)) is not None)

    def sweep(self) -> Swept:
        """Take away what nobody refers to and nobody works on."""
        with self.folder.changing():
            return self.rooms.sweep()

    def set_aside(self, name: str) -> Path:
        """Move an object whose bytes are not its own into the quarantine; nothing is deleted."""
        with self.folder.changing(), refusals_spoken(self.folder.quarantine):
            self.folder.quarantine.mkdir(exist_ok=True)
            return self.folder.object(name).replace(self.folder.quarantine / name)

    def _here(self, reference: StoredRelease) -> dict[str, str]:
        """The objects of what a reference asks for that are there in their full size, whichever release brought them."""
        known, sizes = self.references.known_objects(), reference.sizes
        found = {stated: known.get(stated, stated) for stated in reference.wanted}
        return {
            stated: name
            for stated, name in found.items()
            if len(name) == SHA256_DIGITS and (place := self.object(name)) and sizes.get(stated) in (None, place.stat().st_size)
        }

    def _adopted(self, release: Release, file: RepoFile) -> Path | None:
        """The object where it is already here, referred to from now on."""
        stated = stated_digest(file) or ""
        with self.folder.changing():
            name = self.references.known_objects().get(stated, stated)
            place = self.object(name) if len(name) == SHA256_DIGITS else None
            if place is None:
                return None
            if place.stat().st_size == file.size_bytes:
                self._refer(release, file, name)
                return place
        self.set_aside(name)
        return None

    def _refer(self, release: Release, file: RepoFile, name: str) -> None:
        reference = self.references.find(release.content_id) or with_release(None, release, (file,))
        stated = stated_digest(file) or ""
        if reference.objects.get(stated) != name:
            self.references.write(replace(reference, objects={**reference.objects, stated: name}))
        else:
            self.references.touch(release.content_id)

    def _keep_evidence(self, folder: Path, stated: str) -> None:
        """Wrong bytes leave the download's folder, which ends with the download, for the quarantine."""
        for number, wrong in enumerate(sorted(folder.rglob(f"*{QUARANTINE}"))):
            with refusals_spoken(self.folder.quarantine):
                self.folder.quarantine.mkdir(exist_ok=True)
                wrong.replace(self.folder.quarantine / f"{stated}.{time.time_ns()}-{number}")

    def _placed(self, came: Path, name: str) -> Path:
        place = self.folder.object(name)
        with refusals_spoken(place):
            came.chmod(0o444)
            place.parent.mkdir(exist_ok=True)
            came.replace(place)
            make_durable(place.parent)
            make_durable(self.folder.objects)
        return place


def _same_name(folder: Path, file: RepoFile, whose: str) -> None:
    """What an earlier download under another name left goes on under this one: the digest says that it is the same file."""
    target = inside(folder, f"{file.path}{INCOMPLETE}", whose)
    left = next((path for path in folder.rglob(f"*{INCOMPLETE}") if path.is_file() and not path.is_symlink()), None)
    if left is not None and left != target and not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        left.replace(target)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
