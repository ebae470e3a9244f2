"""Folders and configuration files as hubs, references, and names: no sockets."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.adapters.hubs import hub_for, parse_model_ref, resolve
from dayzero.adapters.hubs.cards import read_card
from dayzero.adapters.hubs.digests import DigestBook
from dayzero.adapters.hubs.directory import DirectoryHub
from dayzero.adapters.hubs.hugging_face import HuggingFaceHub
from dayzero.adapters.hubs.requests import retry_after_s
from dayzero.adapters.hubs.serving.snapshots import ServedFolder
from dayzero.domain.release import HubKind, ModelRef, ReleaseStage
from dayzero.domain.watching import Rule, WatchSource
from dayzero.errors import BadInputError, IntegrityError, NotFoundError
from dayzero.names import safe_path
from dayzero.settings import Settings
from hub_models import REPO, fill

SMALL = {"config.json": b'{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}', "model.safetensors": b"w" * 5000}


@pytest.fixture
def models(tmp_path: Path) -> Path:
    fill(tmp_path / "models", REPO, SMALL)
    return tmp_path / "models"


def test_a_folder_is_a_release(models: Path, tmp_path: Path) -> None:
    hub = DirectoryHub(models / REPO, tmp_path / "digests.json")
    release = hub.release(str(models / REPO), None)
    assert release.hub is HubKind.DIRECTORY and release.stage is ReleaseStage.WEIGHTS and release.repo_id == str(models / REPO)
    assert hub.read_range(release, "model.safetensors", 10, 20) == b"w" * 10
    assert hub.read_small(release, "config.json", 1000) == SMALL["config.json"]
    (models / REPO / "README.md").write_bytes(b"# new")
    again = DirectoryHub(models / REPO, tmp_path / "digests.json").release(str(models / REPO), None)
    assert again.revision != release.revision and again.content_id == release.content_id
    with pytest.raises(NotFoundError, match="holds other files now"):
        hub.release(str(models / REPO), release.revision)


def test_a_changed_file_is_noticed(models: Path, tmp_path: Path) -> None:
    hub = DirectoryHub(models / REPO)
    release = hub.release(str(models / REPO), None)
    (models / REPO / "model.safetensors").write_bytes(b"v" * 5000)
    with pytest.raises(IntegrityError, match="digest"):
        hub.download(release, "model.safetensors", tmp_path / "out", None)
    assert not (tmp_path / "out" / "model.safetensors").exists()
    (models / REPO / "model.safetensors").write_bytes(b"v" * 4000)
    with pytest.raises(IntegrityError, match="changed meanwhile"):
        hub.read_range(release, "model.safetensors", 0, 10)


def test_copies_are_resumed_and_checked(models: Path, tmp_path: Path) -> None:
    hub = DirectoryHub(models)
    release = hub.release(REPO, None)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "model.safetensors.incomplete").write_bytes(b"w" * 1234)
    seen: list[int] = []
    place = hub.download(release, "model.safetensors", tmp_path / "out", lambda done, total: seen.append(done))
    assert place.read_bytes() == SMALL["model.safetensors"] and seen == [5000]


def test_many_models_are_listed_the_newest_first(models: Path) -> None:
    fill(models, "beta/old", {"config.json": b"{}"})
    os.utime(models / "beta/old/config.json", (1, 1))
    fill(models, ".hidden/model", {"config.json": b"{}"})
    rows = list(DirectoryHub(models).list_repos(author=None, task=None, since=None, limit=None))
    assert [row.repo_id for row in rows] == [str(models / REPO), str(models / "beta/old")]
    assert rows[0].task == "text-generation" and rows[0].head == DirectoryHub(models).release(REPO, None).revision
    only = DirectoryHub(models).list_repos(author="beta", task=None, since=None, limit=5)
    assert [row.repo_id for row in only] == [str(models / "beta/old")]
    assert not list(DirectoryHub(models).list_repos(author=None, task="fill-mask", since=None, limit=None))


def test_links_and_half_copied_files_do_not_exist(models: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_bytes(b"secret")
    (models / REPO / "secret.json").symlink_to(tmp_path / "secret.json")
    (models / REPO / "inside.json").symlink_to(models / REPO / "config.json")
    (models / REPO / "model-2.safetensors.incomplete").write_bytes(b"half")
    (models / REPO / ".part").write_bytes(b"half")
    expected = ["config.json", "inside.json", "model.safetensors"]
    assert [file.path for file in DirectoryHub(models).release(REPO, None).files] == expected
    history = ServedFolder(models).history(REPO)
    assert history is not None and [file.path for file in history.head.files] == expected


def test_references(models: Path, tmp_path: Path) -> None:
    assert parse_model_ref("hf:acme/tiny@abc") == ModelRef(HubKind.HUGGING_FACE, "acme/tiny", "abc")
    assert parse_model_ref("ms:acme/tiny") == ModelRef(HubKind.MODELSCOPE, "acme/tiny")
    assert parse_model_ref(f"dir:{models}") == parse_model_ref(str(models)) == ModelRef(HubKind.DIRECTORY, str(models))
    config = models / REPO / "config.json"
    assert parse_model_ref(str(config)) == ModelRef(HubKind.CONFIG, str(config))
    for bad in (
        "",
        "acme/tiny",
        "hf:",
        "hf:../x",
        "hf:a/b@",
        "hf:a/b@-x y",
        "dir:/no/such/folder",
        str(models / REPO / "model.safetensors"),
    ):
        with pytest.raises(BadInputError):
            parse_model_ref(bad)
    with pytest.raises(BadInputError, match=r"no config\.json"):
        parse_model_ref(str(models / REPO / "model.safetensors"))


def test_a_bare_configuration_is_a_release(models: Path, tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    config = models / REPO / "config.json"
    release = resolve(parse_model_ref(str(config)), settings)
    assert release.hub is HubKind.CONFIG and release.stage is ReleaseStage.CONFIG
    hub = hub_for(release, settings)
    assert hub.read_small(release, "config.json", 1000) == SMALL["config.json"]
    assert hub.read_range(release, "config.json", 0, 1) == b"{"
    assert hub.download(release, "config.json", tmp_path / "out", None).read_bytes() == SMALL["config.json"]
    assert resolve(parse_model_ref(str(models / REPO)), settings).stage is ReleaseStage.WEIGHTS
    renamed = models / "other.json"
    renamed.write_bytes(SMALL["config.json"])
    other = resolve(parse_model_ref(str(renamed)), settings)
    assert other.content_id == release.content_id
    assert hub_for(other, settings).read_range(other, "config.json", 0, 1) == b"{"


def test_hubs_are_chosen_and_the_token_stays_at_its_endpoint(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, hf_endpoint="http://ours.test/", hf_token="hf_secret")  # type: ignore[arg-type]
    ours = hub_for(ModelRef(HubKind.HUGGING_FACE, "a/b"), settings)
    other = hub_for(WatchSource("s", HubKind.HUGGING_FACE, "http://other.test", Rule()), settings)
    assert isinstance(ours, HuggingFaceHub) and isinstance(other, HuggingFaceHub)
    assert (ours.endpoint, ours.is_anonymous) == ("http://ours.test", False)
    assert (other.endpoint, other.is_anonymous) == ("http://other.test", True)
    with pytest.raises(BadInputError, match="not supported yet"):
        hub_for(ModelRef(HubKind.MODELSCOPE, "a/b"), settings)
    for bad in ("ftp://x", "huggingface.co", "", "http://"):
        with pytest.raises(BadInputError, match="no address"):
            HuggingFaceHub(bad)


@given(st.text(max_size=40))
def test_accepted_names_stay_inside(name: str) -> None:
    try:
        path = safe_path(name, "a repository")
    except BadInputError as error:
        assert "a repository" in str(error)
    else:
        inside = Path(os.path.normpath(Path("/root/folder") / path))
        assert inside.is_relative_to("/root/folder") and inside != Path("/root/folder")


@given(st.text(max_size=30) | st.integers(-5, 10**12).map(str))
def test_any_retry_after_is_a_wait_or_none(text: str) -> None:
    wait_s = retry_after_s({"Retry-After": text})
    assert wait_s is None or wait_s >= 0


def test_digests_are_kept_and_a_broken_book_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"hello")
    book = DigestBook(tmp_path / "book.json")
    first = book.digest(tmp_path / "file")
    assert first is not None and first.git_blob_id == "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0"
    book.keep()
    assert DigestBook(tmp_path / "book.json").digest(tmp_path / "file") == first
    (tmp_path / "book.json").write_bytes(b"[1, 2")
    assert DigestBook(tmp_path / "book.json").digest(tmp_path / "file") == first
    assert book.digest(tmp_path / "absent") is None


@pytest.mark.parametrize("readme", [b"", b"---\n", b"---\n: [\n---\n", b"---\n- 1\n---\n", b"\xff\xfe", b"---\ntags: 3\n---\n"])
def test_malformed_cards_say_nothing(readme: bytes, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_bytes(readme)
    (tmp_path / "config.json").write_bytes(b"[" * 100_000)
    card = read_card(tmp_path / "README.md", tmp_path / "config.json")
    assert card.task is None and card.tags == () and card.model_type is None


def test_history_returns_and_survives_a_broken_file(models: Path, tmp_path: Path) -> None:
    served = ServedFolder(models, tmp_path / "state")
    first = served.history(REPO)
    (models / REPO / "config.json").write_bytes(b"{}")
    second = served.history(REPO)
    (models / REPO / "config.json").write_bytes(SMALL["config.json"])
    third = served.history(REPO)
    assert first is not None and second is not None and third is not None
    assert third.head.id == first.head.id and [commit.id for commit in third.commits] == [second.head.id, first.head.id]
    (tmp_path / "state" / "history" / f"{REPO}.json").write_bytes(b"{")
    anew = ServedFolder(models, tmp_path / "state").history(REPO)
    assert anew is not None and anew.head.id == first.head.id
    assert list((tmp_path / "state" / "history").rglob("*.unreadable"))
    assert served.history("../models") is None and served.history("acme") is None and served.history("acme/..") is None
