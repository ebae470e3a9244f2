"""Our adapter against our own hub, honest and hostile, over real HTTP."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from dayzero.adapters.hubs.hugging_face import HuggingFaceHub
from dayzero.adapters.hubs.serving.snapshots import ServedFolder
from dayzero.domain.release import FileRole, Release, ReleaseStage, content_id_of
from dayzero.errors import (
    BadInputError,
    BlockedError,
    DayzeroError,
    DependencyError,
    IntegrityError,
    NotFoundError,
    UnavailableError,
)
from hostile_hub import HostileHub
from hub_models import BIG_BYTES, REPO, Published, fill, repo_files

pytestmark = pytest.mark.hub
SHARD = "model-00001-of-00002.safetensors"


def hub_at(url: str, *, timeout_s: float = 20.0, retries: int = 1) -> HuggingFaceHub:
    return HuggingFaceHub(url, None, timeout_s=timeout_s, retries=retries, first_wait_s=0.01)


@contextmanager
def hostile(behaviour: str, tmp_path: Path) -> Iterator[HostileHub]:
    fill(tmp_path / "models", REPO, repo_files())
    with HostileHub(behaviour, tmp_path / "models") as hub:
        yield hub


def test_release_is_pinned_and_classified(published: Published) -> None:
    release = hub_at(published.url + "/").release(REPO, None)
    assert release.endpoint == published.url and len(release.revision) == 40
    assert release.stage is ReleaseStage.WEIGHTS and release.weight_bytes() == 2 * BIG_BYTES
    roles = {file.path: file.role for file in release.files}
    assert roles["config.json"] is FileRole.CONFIGURATION and roles["notes/a b.txt"] is FileRole.OTHER
    assert roles["model.safetensors.index.json"] is FileRole.WEIGHTS_INDEX
    published.path("README.md").write_bytes(b"# another\n")
    again = hub_at(published.url).release(REPO, None)
    assert again.revision != release.revision and again.content_id == release.content_id == content_id_of(release.files)
    assert hub_at(published.url).release(REPO, release.revision).files == release.files


def test_ranges_and_small_files_are_exact(published: Published) -> None:
    hub = hub_at(published.url)
    release = hub.release(REPO, None)
    content = repo_files()[SHARD]
    for begin, end in ((0, 8), (BIG_BYTES - 5, BIG_BYTES), (0, 0), (1 << 20, (1 << 20) + 3)):
        assert hub.read_range(release, SHARD, begin, end) == content[begin:end]
    assert hub.read_small(release, "notes/a b.txt", 100) == b"spaces, and a folder"
    with pytest.raises(BadInputError, match="more than the 5"):
        hub.read_small(release, "config.json", 5)
    with pytest.raises(BadInputError, match="it has"):
        hub.read_range(release, SHARD, 0, BIG_BYTES + 1)
    with pytest.raises(NotFoundError, match="absent"):
        hub.read_small(release, "absent.json", 5)


def test_a_download_goes_on_where_it_stopped(published: Published, tmp_path: Path) -> None:
    hub = hub_at(published.url)
    release = hub.release(REPO, None)
    content = repo_files()[SHARD]
    there = 3 * (1 << 20) + 11
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / f"{SHARD}.incomplete").write_bytes(content[:there])
    seen: list[tuple[int, int | None]] = []
    place = hub.download(release, SHARD, tmp_path / "out", lambda done, total: seen.append((done, total)))
    assert place.read_bytes() == content
    assert published.hub.sent_bytes(SHARD) == BIG_BYTES - there
    assert seen[-1] == (BIG_BYTES, BIG_BYTES) and seen[0][0] > there
    assert [path.name for path in (tmp_path / "out").iterdir()] == [SHARD]
    hub.download(release, SHARD, tmp_path / "out", None)
    assert published.hub.sent_bytes(SHARD) == BIG_BYTES - there


def test_spoilt_partial_and_final_files_are_set_aside(published: Published, tmp_path: Path) -> None:
    hub = hub_at(published.url)
    release = hub.release(REPO, None)
    out = tmp_path / "out"
    out.mkdir()
    (out / SHARD).write_bytes(b"someone wrote here")
    (out / f"{SHARD}.incomplete").write_bytes(b"x" * (BIG_BYTES + 1))
    assert hub.download(release, SHARD, out, None).read_bytes() == repo_files()[SHARD]
    kept = [path for path in out.iterdir() if path.name.endswith(".quarantine")]
    assert [path.read_bytes() for path in kept] == [b"someone wrote here"]
    (out / SHARD).unlink()
    (out / f"{SHARD}.incomplete").write_bytes(b"x" * 1000)
    with pytest.raises(IntegrityError, match="quarantine"):
        hub.download(release, SHARD, out, None)
    assert not (out / SHARD).exists() and not (out / f"{SHARD}.incomplete").exists()
    assert hub.download(release, SHARD, out, None).read_bytes() == repo_files()[SHARD]


def test_a_link_that_leads_out_is_refused(published: Published, tmp_path: Path) -> None:
    hub = hub_at(published.url)
    release = hub.release(REPO, None)
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "notes").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInputError, match="outside"):
        hub.download(release, "notes/a b.txt", tmp_path / "out", None)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_listing_pages_and_since(published: Published) -> None:
    for number in range(3):
        fill(published.folder, f"beta/m{number}", {"config.json": b'{"architectures": ["XForCausalLM"], "model_type": "x"}'})
    hub = hub_at(published.url)
    listed = list(hub.list_repos(author=None, task=None, since=None, limit=None))
    assert {row.repo_id for row in listed} == {REPO, "beta/m0", "beta/m1", "beta/m2"}
    assert all(row.head and len(row.head) == 40 and row.task == "text-generation" for row in listed)
    assert [row.last_modified for row in listed] == sorted((row.last_modified for row in listed), reverse=True)
    assert len(list(hub.list_repos(author=None, task=None, since=None, limit=2))) == 2
    assert {row.repo_id for row in hub.list_repos(author="Beta", task=None, since=None, limit=None)} == {
        "beta/m0", "beta/m1", "beta/m2",
    }  # fmt: skip
    newest = listed[0].last_modified
    assert newest is not None
    late = hub.list_repos(author=None, task=None, since=newest, limit=None)
    assert [row.repo_id for row in late] == [row.repo_id for row in listed if row.last_modified == newest]
    assert not list(hub.list_repos(author=None, task=None, since=newest + timedelta(seconds=1), limit=None))


def test_only_the_given_token_is_sent(published: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_from_the_environment")
    hub_at(published.url).release(REPO, None)
    HuggingFaceHub(published.url, "hf_given", timeout_s=20, retries=0).release(REPO, None)
    sent = {one.authorization for one in published.hub.asked}
    assert sent == {None, "Bearer hf_given"}


@pytest.mark.parametrize(
    ("behaviour", "error", "says"),
    [
        ("down", UnavailableError, "cannot be reached"),
        ("slow", UnavailableError, "did not answer"),
        ("drip", UnavailableError, "too slow"),
        ("flood", BadInputError, "more than"),
        ("missing", NotFoundError, "there is no hf:acme/tiny"),
        ("unauthorized", BlockedError, "DAYZERO_HF_TOKEN"),
        ("rate-limited-long", UnavailableError, "3600 s"),
        ("failing", UnavailableError, "status 500"),
        ("climbing-names", BadInputError, "climbs out"),
        ("absolute-names", BadInputError, "absolute"),
        ("backslash-names", BadInputError, "backslash"),
        ("nul-names", BadInputError, "control character"),
        ("not-json", BadInputError, "no model document"),
        ("wrong-config", IntegrityError, "not what the hub said"),
        ("no-digests", IntegrityError, "no digest"),
    ],
)
def test_hostile_releases_get_one_clear_sentence(behaviour: str, error: type[DayzeroError], says: str, tmp_path: Path) -> None:
    with hostile(behaviour, tmp_path) as hub:
        impatient = 0.5 if behaviour in ("slow", "drip") else 20.0
        with pytest.raises(error, match=says) as raised:
            hub_at(hub.url, timeout_s=impatient, retries=1).release(REPO, None)
        assert hub.url in str(raised.value) or REPO in str(raised.value)
        assert "\n" not in str(raised.value)
        assert type(raised.value) is error


def test_retry_after_is_honoured_and_long_waits_are_handed_on(tmp_path: Path) -> None:
    with hostile("rate-limited", tmp_path) as hub:
        assert hub_at(hub.url, retries=2).release(REPO, None).stage is ReleaseStage.WEIGHTS
        assert [one.status for one in hub.asked][:3] == [429, 429, 200]
    with hostile("rate-limited-long", tmp_path / "long") as hub:
        with pytest.raises(UnavailableError) as raised:
            hub_at(hub.url, retries=5).release(REPO, None)
        assert raised.value.retry_after_s == 3600 and len(hub.asked) == 1


def test_server_errors_are_retried_a_bounded_number_of_times(tmp_path: Path) -> None:
    with hostile("flaky", tmp_path) as hub:
        assert hub_at(hub.url, retries=2).release(REPO, None).weight_bytes() == 2 * BIG_BYTES
    with hostile("failing", tmp_path / "failing") as hub:
        with pytest.raises(UnavailableError):
            hub_at(hub.url, retries=2).release(REPO, None)
        assert len(hub.asked) == 3


def test_gated_releases_are_seen_and_their_files_blocked(tmp_path: Path) -> None:
    with hostile("gated", tmp_path) as hub:
        ours = hub_at(hub.url)
        release = ours.release(REPO, None)
        assert release.gated and release.stage is ReleaseStage.WEIGHTS
        for ask in _asks(ours, release, tmp_path):
            with pytest.raises(BlockedError, match=r"gated .*licence.*DAYZERO_HF_TOKEN"):
                ask()


def _asks(hub: HuggingFaceHub, release: Release, tmp_path: Path) -> list[Callable[[], object]]:
    return [
        lambda: hub.read_small(release, "config.json", 1000),
        lambda: hub.read_range(release, SHARD, 0, 8),
        lambda: hub.download(release, SHARD, tmp_path / "out", None),
    ]


@pytest.mark.parametrize(
    ("behaviour", "error", "says", "left"),
    [
        ("wrong-digest", IntegrityError, "the hub stated", ".quarantine"),
        ("long", IntegrityError, "more of", ".quarantine"),
        ("huge-sizes", DependencyError, "are free", ".incomplete"),
        ("wrong-range", IntegrityError, "was to send", ".incomplete"),
        ("lying-sizes", UnavailableError, "bytes of", ".incomplete"),
    ],
)
def test_hostile_bytes_never_get_the_final_name(
    behaviour: str, error: type[DayzeroError], says: str, left: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with hostile(behaviour, tmp_path) as hub:
        ours = hub_at(hub.url)
        release = ours.release(REPO, None)
        if behaviour == "wrong-range":
            out.mkdir()
            (out / f"{SHARD}.incomplete").write_bytes(repo_files()[SHARD][:100])
        with pytest.raises(error, match=says) as raised:
            ours.download(release, SHARD, out, None)
        assert SHARD in str(raised.value)
    assert not (out / SHARD).exists()
    assert [path.name.endswith(left) for path in out.iterdir()] == [True]


@pytest.mark.parametrize("behaviour", ["truncated", "short"])
def test_a_hub_that_breaks_off_is_asked_for_the_rest(behaviour: str, tmp_path: Path) -> None:
    with hostile(behaviour, tmp_path) as hub:
        ours = hub_at(hub.url, retries=30)
        place = ours.download(ours.release(REPO, None), SHARD, tmp_path / "out", None)
        assert place.read_bytes() == repo_files()[SHARD]
        ranges = [one.byte_range for one in hub.asked if SHARD in one.path]
        assert ranges[0] is None and len(ranges) > 2 and all(ranges[1:])


def test_broken_off_downloads_keep_what_came(tmp_path: Path) -> None:
    with hostile("truncated", tmp_path) as hub:
        ours = hub_at(hub.url, retries=0)
        with pytest.raises(UnavailableError):
            ours.download(ours.release(REPO, None), SHARD, tmp_path / "out", None)
    there = (tmp_path / "out" / f"{SHARD}.incomplete").read_bytes()
    assert there and repo_files()[SHARD].startswith(there)


def test_a_hub_that_ignores_ranges(tmp_path: Path) -> None:
    content = repo_files()[SHARD]
    out = tmp_path / "out"
    out.mkdir()
    (out / f"{SHARD}.incomplete").write_bytes(content[:1000])
    with hostile("ignores-range", tmp_path) as hub:
        ours = hub_at(hub.url)
        release = ours.release(REPO, None)
        assert ours.read_range(release, SHARD, 100, 120) == content[100:120]
        assert ours.download(release, SHARD, out, None).read_bytes() == content


def test_hostile_ranges(tmp_path: Path) -> None:
    for behaviour in ("long", "wrong-range", "short", "lying-sizes"):
        with hostile(behaviour, tmp_path / behaviour) as hub:
            ours = hub_at(hub.url)
            release = ours.release(REPO, None)
            with pytest.raises(IntegrityError, match=REPO):
                ours.read_range(release, SHARD, 0, 200_000)


def test_another_commit_than_asked(tmp_path: Path) -> None:
    with hostile("other-commit", tmp_path) as hub, pytest.raises(IntegrityError, match="answered with commit ffff"):
        head = ServedFolder(hub.folder).history(REPO)
        assert head is not None
        hub_at(hub.url).release(REPO, head.head.id)


def test_stages_of_broken_repositories(tmp_path: Path) -> None:
    for behaviour, stage in (("missing-shard", ReleaseStage.WEIGHTS_PARTIAL), ("pickle-only", ReleaseStage.WEIGHTS)):
        with hostile(behaviour, tmp_path / behaviour) as hub:
            assert hub_at(hub.url).release(REPO, None).stage is stage


def test_hostile_listings(tmp_path: Path) -> None:
    with hostile("circling", tmp_path / "a") as hub, pytest.raises(BadInputError, match="circles"):
        list(hub_at(hub.url).list_repos(author=None, task=None, since=None, limit=None))
    with hostile("elsewhere", tmp_path / "b") as hub:
        fill(hub.folder, "acme/zwei", {"config.json": b"{}"})
        asked = HuggingFaceHub(hub.url, "hf_secret", timeout_s=5, retries=0)
        rows = list(asked.list_repos(author=None, task=None, since=None, limit=None))
        assert "acme/zwei" in {row.repo_id for row in rows}
    with hostile("rubbish-listing", tmp_path / "c") as hub:
        rows = list(hub_at(hub.url).list_repos(author=None, task=None, since=None, limit=None))
        assert [row.repo_id for row in rows] == ["../../etc", REPO]
    with hostile("not-json", tmp_path / "d") as hub, pytest.raises(BadInputError, match="no list"):
        list(hub_at(hub.url).list_repos(author=None, task=None, since=None, limit=None))


@pytest.mark.parametrize("name", ["../x", "a/b/c", "", "a b", "a/..", "x\0y", "a//b"])
def test_repository_ids_are_checked_before_use(name: str) -> None:
    with pytest.raises(BadInputError, match="no repository id"):
        hub_at("http://127.0.0.1:9").release(name, None)
