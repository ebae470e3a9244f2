"""A site's hub over its store: other nodes find the release as it is at the hub, and the hub is not asked again."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import EntryNotFoundError, RepositoryNotFoundError

from dayzero.adapters.hubs.hugging_face import HuggingFaceHub
from dayzero.adapters.hubs.serving.app import serve_repositories
from dayzero.adapters.hubs.serving.stored import ServedStore
from dayzero.adapters.objects.store import ObjectStore
from dayzero.domain.release import Release
from dayzero.steps.storing import files_to_store, named, store_release
from hub_counter import CountingHub
from hub_models import REPO, fill, repo_files

pytestmark = pytest.mark.hub
WEIGHTS = "model-00001-of-00002.safetensors"
EXTRA = {"pytorch_model.bin": b"a pickle that nobody needs"}


@dataclass
class Site:
    """A hub of the world, a site's store that took a release from it, and the site's own hub."""

    world: CountingHub
    store: ObjectStore
    hub: CountingHub
    release: Release


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    fill(tmp_path / "models", REPO, repo_files() | EXTRA)
    with CountingHub(tmp_path / "models") as world:
        hub, store = HuggingFaceHub(world.url, None), ObjectStore(tmp_path / "store")
        release = hub.release(REPO, None)
        store_release(store, hub, release, files_to_store(hub, release, everything=False), None, None)
        with CountingHub(tmp_path, app=serve_repositories(ServedStore(store))) as served:
            yield Site(world, store, served, release)
        store.let_go()


def test_a_second_node_finds_the_same_release_and_takes_it_from_the_site(site: Site, tmp_path: Path) -> None:
    asked = len(site.world.asked)
    hub = HuggingFaceHub(site.hub.url, None)
    found = hub.release(REPO, None)
    assert replace(found, endpoint=None, published_at=None) == replace(site.release, endpoint=None, published_at=None)
    content = repo_files()[WEIGHTS]
    assert hub.read_range(found, WEIGHTS, 1000, 5000) == content[1000:5000]
    pieces = b"".join(bytes(window) for _, window in hub.stream(found, WEIGHTS, ((10, 90_000), (2 << 20, 3 << 20))))
    assert pieces == content[10:90_000] + content[2 << 20 : 3 << 20]
    assert hub.download(found, WEIGHTS, tmp_path / "node", None).read_bytes() == content
    assert len(site.world.asked) == asked, "the hub of the world was not asked again"


def test_a_second_store_holds_the_same_content(site: Site, tmp_path: Path) -> None:
    hub, second = HuggingFaceHub(site.hub.url, None), ObjectStore(tmp_path / "second")
    release = hub.release(REPO, None)
    store_release(second, hub, release, files_to_store(hub, release, everything=False), None, None)
    assert [one.content_id for one in second.releases()] == [site.release.content_id]
    assert second.folder.sizes() == site.store.folder.sizes()


def test_real_clients_download_from_it(site: Site, tmp_path: Path) -> None:
    assert [model.id for model in HfApi(site.hub.url).list_models()] == [REPO]
    place = Path(snapshot_download(REPO, endpoint=site.hub.url, local_dir=tmp_path / "out", ignore_patterns=["*.bin"]))
    assert {name: (place / name).read_bytes() for name in repo_files()} == repo_files()


def test_a_file_that_is_listed_and_not_held_says_what_to_do(site: Site, tmp_path: Path) -> None:
    assert HfApi(site.hub.url).file_exists(REPO, "config.json")
    with pytest.raises(EntryNotFoundError, match="dayzero store add --all"):
        HfApi(site.hub.url).hf_hub_download(REPO, "pytorch_model.bin", local_dir=tmp_path / "out")
    hub = HuggingFaceHub(site.world.url, None)
    store_release(site.store, hub, site.release, site.release.files, None, None)
    place = HfApi(site.hub.url).hf_hub_download(REPO, "pytorch_model.bin", local_dir=tmp_path / "out")
    assert Path(place).read_bytes() == EXTRA["pytorch_model.bin"]


def test_what_clients_ask_for_is_not_evicted(site: Site) -> None:
    hub = HuggingFaceHub(site.hub.url, None)
    found = hub.release(REPO, None)
    hub.read_range(found, WEIGHTS, 0, 10)
    assert site.store.evict([found.content_id], "asked") == ()
    site.store.let_go()
    assert len(site.store.evict([found.content_id], "asked")) == 1
    with pytest.raises(RepositoryNotFoundError):
        HfApi(site.hub.url).model_info(REPO)


def test_a_release_that_came_in_part_is_not_served(site: Site) -> None:
    reference = site.store.releases()[0]
    lost = next(file for file in site.release.files if file.path == WEIGHTS)
    site.store.references.write(
        replace(reference, objects={stated: name for stated, name in reference.objects.items() if stated != lost.sha256})
    )
    assert list(HfApi(site.hub.url).list_models()) == []


def test_a_store_that_cannot_be_written_is_served(site: Site) -> None:
    shutil.rmtree(site.store.folder.root / "pins")
    (site.store.folder.root / "pins").write_text("no folder")
    hub = HuggingFaceHub(site.hub.url, None)
    assert hub.read_range(hub.release(REPO, None), WEIGHTS, 5, 9) == repo_files()[WEIGHTS][5:9]


def test_a_folder_is_served_under_the_name_it_was_given(site: Site, tmp_path: Path) -> None:
    from dayzero.adapters.hubs.directory import DirectoryHub

    home = tmp_path / "models" / REPO
    hub = DirectoryHub(home)
    release = hub.release(str(home), None)
    store_release(site.store, hub, release, files_to_store(hub, release, everything=False), "our/own", None)
    found = HuggingFaceHub(site.hub.url, None).release("our/own", None)
    assert found.content_id == release.content_id == named(release, "our/own").content_id
    assert HuggingFaceHub(site.hub.url, None).read_range(found, "config.json", 0, 3) == repo_files()["config.json"][:3]
