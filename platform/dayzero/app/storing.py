"""This site's store of releases, for one command."""

from collections.abc import Callable
from pathlib import Path

from dayzero.adapters.destinations.putting import put_files
from dayzero.adapters.destinations.taking import take_files
from dayzero.adapters.hubs.choose import parse_model_ref, resolve
from dayzero.adapters.objects.checking import check_store
from dayzero.adapters.objects.store import ObjectStore
from dayzero.adapters.transfer.verifying import completed_manifest
from dayzero.app.hubs import hub_of, store_of
from dayzero.domain.parcels import Moved
from dayzero.domain.release import HubKind
from dayzero.domain.stored import Checked, Evicted, HeldRelease, StoredRelease, StoreUse, Swept
from dayzero.domain.transfers import TransferEstimate
from dayzero.errors import BadInputError
from dayzero.ports.hub import Progress
from dayzero.settings import Settings
from dayzero.stages.transfer.estimating import needs_approval
from dayzero.steps.storing import Stored, estimate_storing, files_to_store, named, store_release

Tell = Callable[[str], None]

_UNFINISHED = (".incomplete", ".quarantined", ".quarantine", ".tmp")


def list_store(settings: Settings) -> tuple[StoreUse, tuple[HeldRelease, ...]]:
    """What the store holds, the most recently used release first."""
    store = store_of(settings)
    releases, sizes = store.releases(), store.folder.sizes()
    rows = [
        HeldRelease(release, sum(keep.objects.values()), keep.used_at_s, keep.pinned)
        for release, keep in zip(releases, store.rooms.keeps(releases, sizes), strict=True)
    ]
    return store.use(), tuple(sorted(rows, key=lambda row: -row.used_at_s))


def add_to_store(
    settings: Settings,
    model: str,
    *,
    repo_id: str | None,
    everything: bool,
    approve: Callable[[TransferEstimate], None],
    progress: Progress | None,
    tell: Tell,
) -> Stored:
    """Bring a release of a hub, or a folder, into the store; `approve` is asked first where that moves much."""
    ref = parse_model_ref(model)
    if ref.hub is HubKind.CONFIG:
        raise BadInputError(f"{ref.location} is a configuration alone.", remedy="Name a model: hf:org/name, or its folder.")
    release = resolve(ref, settings)
    hub, store = hub_of(release, settings), store_of(settings, tell)
    served = named(release, repo_id)
    files = files_to_store(hub, release, everything=everything)
    estimate = estimate_storing(store, served, files)
    if needs_approval(estimate, settings.approve_below_bytes):
        approve(estimate)
    return store_release(store, hub, release, files, repo_id, progress)


def check_stored(settings: Settings, progress: Progress | None) -> Checked:
    """Read every object of the store again; see check_store."""
    return check_store(store_of(settings), progress)


def evict_stored(settings: Settings, names: tuple[str, ...], tell: Tell) -> tuple[tuple[Evicted, ...], tuple[str, ...]]:
    """Let releases go, named by repository or by the beginning of a content id: those that went, and those that are in use.

    BadInputError: nothing of that name is held.
    """
    store = store_of(settings, tell)
    wanted: list[str] = []
    for name in names:
        found = _named(store, name)
        if not found:
            raise BadInputError(f"the store holds no release {name[:100]!r}.", remedy="See `dayzero store ls`.")
        wanted += [one.content_id for one in found]
    gone = store.evict(list(dict.fromkeys(wanted)), "asked for")
    return gone, tuple(one for one in dict.fromkeys(wanted) if one not in {left.content_id for left in gone})


def sweep_store(settings: Settings) -> Swept:
    """Take away what no release refers to, and downloads that nobody goes on with."""
    return store_of(settings).sweep()


def put_at(settings: Settings, what: str, url: str, progress: Progress | None) -> Moved:
    """Put a folder of written shards, or a release of the store, to a URL of fsspec's (s3://bucket/folder, a folder)."""
    folder = Path(what)
    if folder.is_dir():
        manifest = completed_manifest(folder)
        return put_files(_finished_files(folder), manifest.content_id, url, progress)
    store = store_of(settings)
    found = _named(store, what)
    if len(found) != 1:
        wrong = "no folder, and no release that the store holds" if not found else f"{len(found)} releases of the store"
        raise BadInputError(
            f"{what[:200]!r} is {wrong}.", remedy="Name a folder of shards, or a content id of `dayzero store ls`."
        )
    with store.pinned(found[0].content_id):
        return put_files(_held_files(store, found[0]), found[0].content_id, url, progress)


def take_from(url: str, out: Path, progress: Progress | None) -> Moved:
    """Take what was put to a URL into a folder; see take_files."""
    return take_files(url, out, progress)


def _named(store: ObjectStore, name: str) -> list[StoredRelease]:
    """The releases of a repository, or whose content id begins so."""
    return [one for one in store.releases() if name in one.names or (name and one.content_id.startswith(name))]


def _finished_files(folder: Path) -> dict[str, Path]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    names = {path.relative_to(folder).as_posix(): path for path in found}
    return {
        name: path
        for name, path in names.items()
        if not any(part.startswith(".") for part in name.split("/")) and not name.endswith(_UNFINISHED)
    }


def _held_files(store: ObjectStore, reference: StoredRelease) -> dict[str, Path]:
    """The files of the newest revision of a release by their names; BadInputError when one that was asked for is missing."""
    release = reference.releases[-1]
    names = {file.path: reference.object_of(file) for file in release.files}
    found = {path: store.object(name) for path, name in names.items() if name is not None}
    if reference.missing or None in found.values():
        raise BadInputError(
            f"{release.repo_id} ({reference.content_id[:12]}) did not come whole.", remedy=f"dayzero store add {release.ref}"
        )
    return {path: place for path, place in found.items() if place is not None}
