"""A store with one process: what it takes, what it refuses, and what it says of damage."""

import hashlib
import os
import time
from collections import namedtuple
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import cast

import pytest

from dayzero import disk
from dayzero.adapters.objects import leases
from dayzero.adapters.objects.checking import check_store
from dayzero.adapters.objects.hub import StoredHub
from dayzero.adapters.objects.leases import LEASE_S
from dayzero.adapters.objects.store import ObjectStore
from dayzero.domain.release import FileRole, Release, RepoFile
from dayzero.errors import BadInputError, BlockedError, DependencyError, IntegrityError, UnavailableError
from dayzero.ports.hub import Hub
from memory_hub import MemoryHub, release_of

Usage = namedtuple("Usage", "total used free")
FILES = {"config.json": b'{"model_type": "llama"}', "model.safetensors": bytes(range(256)) * 40}
WEIGHTS = hashlib.sha256(FILES["model.safetensors"]).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return ObjectStore(tmp_path / "store")


def published(files: dict[str, bytes] = FILES, repo_id: str = "acme/tiny") -> tuple[MemoryHub, Release]:
    hub, release = MemoryHub(), release_of(files, repo_id)
    hub.publish(release, files)
    return hub, release


def take(store: ObjectStore, hub: MemoryHub, release: Release) -> dict[str, Path]:
    with store.taking(release, release.files):
        return {file.path: store.obtain(cast("Hub", hub), release, file) for file in release.files}


def over(store: ObjectStore, hub: MemoryHub) -> StoredHub:
    return StoredHub(cast("Hub", hub), store)


def test_an_object_is_named_by_its_bytes_and_fetched_once(store: ObjectStore) -> None:
    hub, release = published()
    places = take(store, hub, release)
    sent = hub.sent_bytes
    assert {path: place.read_bytes() for path, place in places.items()} == FILES
    assert all(hashlib.sha256(place.read_bytes()).hexdigest() == place.name for place in places.values())
    other = release_of({**FILES, "README.md": b"new"}, "mirror/tiny", "d" * 40)
    hub.publish(other, {**FILES, "README.md": b"new"})
    take(store, hub, other)
    assert hub.sent_bytes == sent + 3, "two repositories with the same content share it; only the README came"
    (reference,) = store.releases()
    assert reference.names == ("acme/tiny", "mirror/tiny") and reference.missing == ()


def test_two_views_share_one_copy(store: ObjectStore) -> None:
    hub, release = published()
    first = over(store, hub).download(release, "model.safetensors", store.folder.models / "one", None)
    second = over(store, hub).download(release, "model.safetensors", store.folder.models / "two", None)
    assert first.samefile(second) and first.read_bytes() == FILES["model.safetensors"]
    assert hub.sent_bytes == len(FILES["model.safetensors"])


def test_a_view_keeps_what_lay_there_before(store: ObjectStore) -> None:
    hub, release = published()
    view = store.folder.models / "view"
    view.mkdir(parents=True)
    (view / "config.json").write_bytes(b"mine")
    over(store, hub).download(release, "config.json", view, None)
    assert (view / "config.json").read_bytes() == FILES["config.json"]
    assert (view / "config.json.replaced.quarantine").read_bytes() == b"mine"


def test_reads_come_from_the_object(store: ObjectStore) -> None:
    hub, release = published()
    stored = over(store, hub)
    assert stored.read_range(release, "model.safetensors", 3, 9) == FILES["model.safetensors"][3:9]
    assert hub.sent_bytes == 6
    take(store, hub, release)
    sent = hub.sent_bytes
    assert stored.read_range(release, "model.safetensors", 3, 9) == FILES["model.safetensors"][3:9]
    pieces = [(at, bytes(window)) for at, window in stored.stream(release, "model.safetensors", ((0, 5), (100, 102)))]
    assert pieces == [(0, FILES["model.safetensors"][:5]), (100, FILES["model.safetensors"][100:102])]
    assert stored.read_small(release, "config.json", 1000) == FILES["config.json"]
    assert hub.sent_bytes == sent
    with pytest.raises(BadInputError, match="are asked for"):
        stored.read_range(release, "model.safetensors", 0, 10**9)


def test_a_broken_download_goes_on(store: ObjectStore) -> None:
    hub, release = published()
    hub.breaks_after_bytes = 4000
    with pytest.raises(UnavailableError):
        take(store, hub, release)
    assert store.use().partial_bytes == 4000
    assert store.releases()[0].missing, "what was asked for and is not there is known"
    hub.breaks_after_bytes = None
    take(store, hub, release)
    assert hub.sent_bytes == sum(map(len, FILES.values())), "no byte came twice"
    assert store.use().partial_bytes == 0


def test_a_download_goes_on_under_another_name(store: ObjectStore) -> None:
    hub, release = published()
    hub.breaks_after_bytes = 4000
    with pytest.raises(UnavailableError):
        take(store, hub, release)
    hub.breaks_after_bytes = None
    renamed = {"renamed.safetensors": FILES["model.safetensors"]}
    other = release_of(renamed, "acme/renamed")
    hub.publish(other, renamed)
    before = hub.sent_bytes
    take(store, hub, other)
    assert hub.sent_bytes - before == len(FILES["model.safetensors"]) - 4000


def test_wrong_bytes_are_no_object_and_are_kept_for_who_asks_why(store: ObjectStore) -> None:
    hub, release = published()
    hub.contents[WEIGHTS] = b"x" * len(FILES["model.safetensors"])
    with pytest.raises(IntegrityError, match="has digest"):
        take(store, hub, release)
    assert store.object(WEIGHTS) is None
    (evidence,) = store.folder.quarantine.iterdir()
    assert evidence.read_bytes() == hub.contents[WEIGHTS]
    hub.publish(release, FILES)
    take(store, hub, release)
    assert evidence.exists() and store.object(WEIGHTS) is not None


def test_damage_is_found_set_aside_and_fetched_again(store: ObjectStore) -> None:
    hub, release = published()
    place = take(store, hub, release)["model.safetensors"]
    place.chmod(0o644)
    content = bytearray(FILES["model.safetensors"])
    content[77] ^= 1
    place.write_bytes(content)
    checked = check_store(store)
    assert checked.damaged == (WEIGHTS,) and (store.folder.quarantine / WEIGHTS).read_bytes() == content
    assert checked.incomplete == (f"acme/tiny ({release.content_id[:12]}) lacks 1 of 2 files",)
    assert take(store, hub, release)["model.safetensors"].read_bytes() == FILES["model.safetensors"]
    assert check_store(store).incomplete == ()


def test_an_object_of_another_size_is_never_given_out(store: ObjectStore) -> None:
    hub, release = published()
    place = take(store, hub, release)["model.safetensors"]
    place.chmod(0o644)
    os.truncate(place, 10)
    assert over(store, hub).read_range(release, "model.safetensors", 0, 20) == FILES["model.safetensors"][:20]
    assert take(store, hub, release)["model.safetensors"].read_bytes() == FILES["model.safetensors"]


def test_a_reference_that_cannot_be_read_stops_every_removal(store: ObjectStore) -> None:
    hub, release = published()
    take(store, hub, release)
    store.folder.reference(release.content_id).write_bytes(b'{"content_id": 3')
    with pytest.raises(BadInputError, match="no reference that can be read"):
        store.sweep()
    assert store.object(WEIGHTS) is not None


@pytest.mark.parametrize("stated", ["../../../../etc/passwd", "A" * 64, "b" * 63, "", "b" * 64 + "\n"])
def test_a_digest_that_is_none_leads_nowhere(store: ObjectStore, stated: str) -> None:
    hub, release = published()
    hostile = RepoFile("model.safetensors", 10, FileRole.WEIGHTS, stated)
    with pytest.raises((BadInputError, IntegrityError), match="no digest"):
        take(store, hub, replace(release, files=(hostile,)))
    with pytest.raises(BadInputError, match="no digest"):
        store.folder.object(stated)


@pytest.mark.parametrize("path", ["../../outside", "/etc/passwd", "a/../../b", "back\\slash", "nul\0", "."])
def test_a_name_that_climbs_out_is_refused(store: ObjectStore, tmp_path: Path, path: str) -> None:
    hub, release = published()
    hostile = replace(release, files=(replace(release.files[1], path=path),))
    with pytest.raises(BadInputError):
        over(store, hub).download(hostile, path, store.folder.models / "view", None)
    take(store, hub, release)
    with pytest.raises(BadInputError):
        over(store, hub).download(hostile, path, store.folder.models / "view", None)
    assert not (tmp_path / "outside").exists()
    assert [one.name for one in tmp_path.iterdir()] == ["store"]


def test_a_link_in_the_view_leads_nothing_out(store: ObjectStore, tmp_path: Path) -> None:
    hub, release = published({"sub/config.json": b"{}"})
    view = store.folder.models / "view"
    view.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (view / "sub").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInputError, match="link"):
        over(store, hub).download(release, "sub/config.json", view, None)
    assert not any((tmp_path / "elsewhere").iterdir())


def test_the_limit_refuses_with_numbers_before_the_first_byte(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path / "store", 5000)
    hub, release = published()
    with pytest.raises(BlockedError, match=r"needs 10,263 bytes more .* at most 5,000"):
        take(store, hub, release)
    assert hub.sent_bytes == 0 and store.releases() == ()


def test_two_fetches_cannot_both_be_promised_the_last_room(tmp_path: Path) -> None:
    store, other = (ObjectStore(tmp_path / "store", 15_000) for _ in range(2))
    hub, first = published()
    files = {"model.safetensors": b"z" * 9000}
    second = release_of(files, "acme/second")
    with store.taking(first, first.files), pytest.raises(BlockedError, match="in use"), other.taking(second, second.files):
        pytest.fail("there is no room for both")
    hub.publish(second, files)
    with store.taking(second, second.files):
        store.obtain(cast("Hub", hub), second, second.files[0])


def test_what_was_evicted_is_told_with_its_reason(tmp_path: Path) -> None:
    told: list[str] = []
    store = ObjectStore(tmp_path / "store", 15_000, told.append)
    hub, release = published()
    take(store, hub, release)
    view = over(store, hub).download(release, "model.safetensors", store.folder.model(release.content_id), None)
    files = {"model.safetensors": b"z" * 9000}
    second = release_of(files, "acme/second")
    hub.publish(second, files)
    take(store, hub, second)
    assert told == [
        f"Evicted acme/tiny ({release.content_id[:12]}), 10,263 bytes: 9,000 bytes for acme/second under the limit of 15,000."
    ]
    assert not view.exists(), "the view went with its release, or its bytes would stay"


def test_a_held_release_stays(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path / "store", 15_000)
    hub, release = published()
    take(store, hub, release)
    store.hold(release.content_id)
    second = release_of({"model.safetensors": b"z" * 9000}, "acme/second")
    with pytest.raises(BlockedError), store.taking(second, second.files):
        pass
    assert store.evict([release.content_id], "asked") == ()
    store.let_go()
    assert [gone.names for gone in store.evict([release.content_id], "asked")] == [("acme/tiny",)]
    assert store.use().object_count == 0


def test_a_full_disk_is_named_before_the_first_byte(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    hub, release = published()
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda _: Usage(10**6, 10**6 - 100, 100))
    with pytest.raises(DependencyError, match=r"needs 10263 bytes .* 100 are free"):
        take(store, hub, release)
    assert hub.sent_bytes == 0


def test_a_store_in_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file")
    hub, release = published()
    with pytest.raises(DependencyError, match="cannot be written"):
        take(ObjectStore(tmp_path / "store"), hub, release)
    assert (tmp_path / "store").read_text() == "a file"


def test_a_lease_ends_by_itself(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    hub, release = published()
    take(store, hub, release)
    store.lease(release.content_id)
    assert store.rooms.is_pinned(release.content_id) and store.evict([release.content_id], "asked") == ()
    later = time.monotonic() + LEASE_S + 1
    monkeypatch.setattr(leases.time, "monotonic", lambda: later)
    until = Event()
    while store.rooms.is_pinned(release.content_id):
        until.wait(0.1)
    store.let_go()


def test_a_copy_elsewhere_is_no_other_name_of_the_object(store: ObjectStore, tmp_path: Path) -> None:
    hub, release = published()
    place = take(store, hub, release)["config.json"]
    copy = over(store, hub).download(release, "config.json", tmp_path / "out", None)
    assert copy.read_bytes() == place.read_bytes() and not copy.samefile(place)


def test_what_a_victim_shares_with_the_release_that_comes_stays(tmp_path: Path) -> None:
    """Found by the state machine: the shared object went with the victim, and the release that came did not fit any more."""
    store, hub = ObjectStore(tmp_path / "store", 20_000), MemoryHub()
    shared, other = {"a.safetensors": b"a" * 8000}, {"pinned.safetensors": b"p" * 4000}
    first = release_of(shared | {"b.safetensors": b"b" * 6000}, "acme/first")
    pinned, second = release_of(other, "acme/pinned"), release_of(shared | {"c.safetensors": b"c" * 7000}, "acme/second")
    hub.publish(first, shared | {"b.safetensors": b"b" * 6000})
    hub.publish(pinned, other)
    hub.publish(second, shared | {"c.safetensors": b"c" * 7000})
    take(store, hub, pinned)
    take(store, hub, first)
    sent = hub.sent_bytes
    with store.pinned(pinned.content_id):
        take(store, hub, second)
    assert hub.sent_bytes == sent + 7000 and {one.names[-1] for one in store.releases()} == {"acme/pinned", "acme/second"}


def test_a_full_disk_counts_what_an_eviction_frees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ObjectStore(tmp_path / "store", 15_000)
    hub, release = published()
    take(store, hub, release)
    files = {"model.safetensors": b"z" * 9000}
    second = release_of(files, "acme/second")
    hub.publish(second, files)

    def usage(_: Path) -> Usage:
        free = disk.SPARE_BYTES + 10_300 - sum(store.folder.sizes().values())
        return Usage(10**9, 10**9 - free, free)

    monkeypatch.setattr(disk.shutil, "disk_usage", usage)
    with pytest.raises(DependencyError), ObjectStore(tmp_path / "other").taking(second, second.files):
        pass
    with store.taking(second, second.files) as evicted:
        assert [gone.freed_bytes for gone in evicted] == [10_263]
