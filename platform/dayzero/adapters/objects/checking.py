"""Checking a store: every object read again, every reference followed."""

import hashlib
from pathlib import Path

from dayzero.adapters.objects.store import ObjectStore
from dayzero.domain.stored import Checked
from dayzero.ports.hub import Progress


def check_store(store: ObjectStore, progress: Progress | None = None) -> Checked:
    """Read every object; one whose bytes are not its own is set aside (never deleted), and the releases that lack an object
    are named. BadInputError: a reference cannot be read."""
    references = store.releases()
    sizes = store.folder.sizes()
    total, done, damaged = sum(sizes.values()), 0, []
    for name, size_bytes in sorted(sizes.items()):
        if _sha256(store.folder.object(name)) not in (name, None):
            store.set_aside(name)
            damaged.append(name)
        done += size_bytes
        if progress is not None:
            progress(done, total)
    incomplete = tuple(
        f"{', '.join(one.names)} ({one.content_id[:12]}) lacks {lacking} of {len(one.wanted)} files"
        for one in references
        if (lacking := sum(1 for stated in one.wanted if _is_lacking(store, one.objects.get(stated))))
    )
    return Checked(len(sizes), total, tuple(damaged), incomplete)


def _is_lacking(store: ObjectStore, name: str | None) -> bool:
    return name is None or store.object(name) is None


def _sha256(path: Path) -> str | None:
    """None: it was evicted meanwhile."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except FileNotFoundError:
        return None
