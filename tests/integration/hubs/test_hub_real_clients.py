"""Real clients, unchanged, against our own hub."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import EntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError

from hub_counter import CountingHub
from hub_models import REPO, Published, fill, repo_files

pytestmark = pytest.mark.hub


def test_model_info_states_sizes_and_digests(published: Published) -> None:
    info = HfApi(published.url).model_info(REPO, files_metadata=True)
    assert info.pipeline_tag == "text-generation" and "tiny" in info.tags
    stated = {sibling.rfilename: sibling for sibling in info.siblings}
    assert set(stated) == set(repo_files())
    for name, content in repo_files().items():
        assert stated[name].size == len(content)
        if name.endswith(".safetensors"):
            assert stated[name].lfs.sha256 == hashlib.sha256(content).hexdigest()
        else:
            assert stated[name].lfs is None
            assert stated[name].blob_id == hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def test_tree_commits_refs_and_existence(published: Published) -> None:
    api = HfApi(published.url)
    top = {entry.path for entry in api.list_repo_tree(REPO)}
    assert "notes" in top and "notes/a b.txt" not in top
    assert {entry.path for entry in api.list_repo_tree(REPO, recursive=True)} == set(repo_files()) | {"notes"}
    assert [entry.path for entry in api.list_repo_tree(REPO, "notes", expand=True)] == ["notes/a b.txt"]
    head = api.model_info(REPO).sha
    assert [commit.commit_id for commit in api.list_repo_commits(REPO)] == [head]
    assert [(ref.name, ref.target_commit) for ref in api.list_repo_refs(REPO).branches] == [("main", head)]
    assert api.file_exists(REPO, "config.json") and not api.file_exists(REPO, "absent.json")
    assert [info.path for info in api.get_paths_info(REPO, ["config.json", "notes", "absent"])] == ["config.json", "notes"]
    assert api.repo_exists(REPO) and not api.repo_exists("acme/absent")


def test_a_change_makes_a_commit_and_old_small_files_stay(published: Published) -> None:
    api = HfApi(published.url)
    before = api.model_info(REPO).sha
    old_config = published.path("config.json").read_bytes()
    published.path("config.json").write_bytes(b'{"model_type": "qwen3"}')
    published.path("model-00001-of-00002.safetensors").write_bytes(b"0" * (2 << 20))
    after = api.model_info(REPO).sha
    assert after != before
    assert [commit.commit_id for commit in api.list_repo_commits(REPO)] == [after, before]
    assert Path(hf_hub_download(REPO, "config.json", revision=before, endpoint=published.url)).read_bytes() == old_config
    with pytest.raises(EntryNotFoundError, match="model-00001"):
        hf_hub_download(REPO, "model-00001-of-00002.safetensors", revision=before, endpoint=published.url)
    kept = hf_hub_download(REPO, "model-00002-of-00002.safetensors", revision=before, endpoint=published.url)
    assert Path(kept).read_bytes() == repo_files()["model-00002-of-00002.safetensors"]


def test_commits_survive_a_restart_and_are_the_same_anywhere(published: Published, tmp_path: Path) -> None:
    api = HfApi(published.url)
    first = api.model_info(REPO)
    published.path("README.md").write_bytes(b"# changed\n")
    second = api.model_info(REPO)
    with CountingHub(published.folder) as again:
        commits = HfApi(again.url).list_repo_commits(REPO)
        assert [commit.commit_id for commit in commits] == [second.sha, first.sha]
        assert HfApi(again.url).model_info(REPO).last_modified == second.last_modified
    fill(tmp_path / "mirror", REPO, repo_files())
    with CountingHub(tmp_path / "mirror") as mirror:
        assert HfApi(mirror.url).model_info(REPO).sha == first.sha


def test_snapshot_download_brings_every_file(published: Published, tmp_path: Path) -> None:
    place = snapshot_download(REPO, endpoint=published.url, local_dir=tmp_path / "copy")
    for name, content in repo_files().items():
        assert (Path(place) / name).read_bytes() == content
    cached = snapshot_download(REPO, endpoint=published.url, cache_dir=tmp_path / "cache", allow_patterns=["*.json"])
    assert sorted(path.name for path in Path(cached).iterdir()) == ["config.json", "model.safetensors.index.json"]


def test_missing_things_raise_the_clients_own_errors(published: Published) -> None:
    api = HfApi(published.url)
    with pytest.raises(RepositoryNotFoundError):
        api.model_info("acme/absent")
    with pytest.raises(RevisionNotFoundError):
        api.model_info(REPO, revision="0" * 40)
    with pytest.raises(RevisionNotFoundError):
        hf_hub_download(REPO, "config.json", revision="refs/pr/1", endpoint=published.url)
    with pytest.raises(EntryNotFoundError):
        hf_hub_download(REPO, "absent.json", endpoint=published.url)


def test_the_command_line_client(published: Published, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "HF_ENDPOINT": published.url,
        "HF_HOME": str(tmp_path / "home"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
    hf = Path(sys.executable).parent / "hf"
    done = subprocess.run(
        [hf, "download", REPO, "--local-dir", str(tmp_path / "got")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    for name, content in repo_files().items():
        assert (tmp_path / "got" / name).read_bytes() == content


def test_listing_filters_sorts_and_pages(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    for number in range(7):
        fill(folder, f"org{number % 2}/m{number}", {"config.json": b'{"model_type": "llama"}', "README.md": b"%d" % number})
    fill(folder, "org0/chat", {"README.md": b"---\npipeline_tag: text-generation\n---\n"})
    with CountingHub(folder) as hub:
        api = HfApi(hub.url)
        everything = {model.id for model in api.list_models()}
        assert everything == {f"org{number % 2}/m{number}" for number in range(7)} | {"org0/chat"}
        assert {model.id for model in api.list_models(author="org1")} == {"org1/m1", "org1/m3", "org1/m5"}
        assert [model.id for model in api.list_models(search="M6")] == ["org0/m6"]
        assert [model.id for model in api.list_models(pipeline_tag="text-generation")] == ["org0/chat"]
        assert len(list(api.list_models(filter="llama"))) == 7
        dates = [model.created_at for model in api.list_models(sort="created_at")]
        assert dates == sorted(dates, reverse=True)
        (folder / "org1/m3/README.md").write_bytes(b"newer")
        assert next(iter(api.list_models(sort="last_modified"))).id == "org1/m3"
        assert {model.id for model in api.list_models(limit=3)} < everything
        hub.asked.clear()
        pages = _all_pages(hub.url, 3)
        assert [len(page) for page in pages] == [3, 3, 2]
        assert {row for page in pages for row in page} == everything


def _all_pages(url: str, size: int) -> list[list[str]]:
    import httpx

    pages, following = [], f"{url}/api/models?limit={size}"
    while following:
        answer = httpx.get(following)
        pages.append([row["id"] for row in answer.json()])
        following = answer.links.get("next", {}).get("url", "")
    return pages
