"""Polling with a fake hub and a fake book."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dayzero.domain.release import HubKind, Release, ReleaseStage, RepoFile, content_id_of
from dayzero.domain.watching import RepoListing, Rule, WatchSource
from dayzero.errors import BadInputError, DayzeroError, UnavailableError
from dayzero.ports.catalog import PassedOver, Recorded, SeenRepo
from dayzero.ports.hub import Progress
from dayzero.stages.watching.roles import role_of
from dayzero.stages.watching.stages import stage_of
from dayzero.steps.watch import RepoNote, poll_all, poll_source

NOW = datetime(2026, 5, 1, tzinfo=UTC)
URL = "http://hub.test"


@dataclass
class FakeHub:
    """Repositories in memory: id → (head, file names), or the error that asking for it raises."""

    repos: dict[str, tuple[str | None, tuple[str, ...]] | DayzeroError]
    broken_after: int | None = None
    asked: list[str] = field(default_factory=list)

    def list_repos(
        self, *, author: str | None, task: str | None, since: datetime | None, limit: int | None
    ) -> Iterator[RepoListing]:
        for number, (repo_id, repo) in enumerate(self.repos.items()):
            if number == self.broken_after:
                raise UnavailableError("the hub went away.")
            head = "e" * 40 if isinstance(repo, DayzeroError) else repo[0]
            yield RepoListing(repo_id, head, NOW - timedelta(days=number))

    def release(self, repo_id: str, revision: str | None) -> Release:
        self.asked.append(repo_id)
        repo = self.repos[repo_id]
        if isinstance(repo, DayzeroError):
            raise repo
        files = tuple(RepoFile(name, 10, role_of(name), "a" * 64) for name in repo[1])
        stage, _ = stage_of(files, None)
        return Release(HubKind.HUGGING_FACE, repo_id, revision or "0" * 40, stage, files, content_id_of(files), URL)

    def read_range(self, release: Release, path: str, begin: int, end: int) -> bytes:
        raise NotImplementedError

    def read_small(self, release: Release, path: str, max_bytes: int) -> bytes:
        raise NotImplementedError

    def download(self, release: Release, path: str, into: Path, progress: Progress | None) -> Path:
        raise NotImplementedError


@dataclass
class FakeBook:
    """A book in memory."""

    listed: tuple[WatchSource, ...] = ()
    recorded: list[tuple[Release, tuple[str, ...]]] = field(default_factory=list)
    polls: list[tuple[str, str | None]] = field(default_factory=list)
    noted: tuple[PassedOver, ...] = ()

    def sources(self) -> Sequence[WatchSource]:
        return self.listed

    def add_source(self, hub: HubKind, location: str, rule: Rule, since: datetime | None) -> WatchSource:
        raise NotImplementedError

    def remove_source(self, source_id: str) -> None:
        raise NotImplementedError

    def passed_over(self, source_id: str, noted: Sequence[PassedOver]) -> None:
        self.noted = tuple(noted)

    def polled(self, source_id: str, error: str | None) -> None:
        self.polls.append((source_id, error))

    def seen(self, hub: HubKind, endpoint: str | None, repo_id: str) -> SeenRepo | None:
        for release, _ in reversed(self.recorded):
            if (release.hub, release.endpoint, release.repo_id) == (hub, endpoint, repo_id):
                return SeenRepo("r", release.revision, release.stage, release.content_id)
        return None

    def record_release(self, release: Release, platforms: Sequence[str]) -> Recorded:
        new = all(release.revision != old.revision or release.repo_id != old.repo_id for old, _ in self.recorded)
        self.recorded.append((release, tuple(platforms)))
        return Recorded("r", new, ())


def source(rule: Rule | None = None, since: datetime | None = None, name: str = "s1") -> WatchSource:
    return WatchSource(name, HubKind.HUGGING_FACE, f"{URL}/", rule or Rule(), since)


CONFIG = ("config.json",)
LIVE = ("config.json", "model.safetensors")


def test_new_repositories_are_recorded_and_known_heads_cost_nothing() -> None:
    hub, book = FakeHub({"a/x": ("1" * 40, CONFIG), "a/y": ("2" * 40, LIVE)}), FakeBook()
    report = poll_source(book, hub, source(), ["cpu"])
    assert report.seen == 2 and report.new == report.taken == (f"a/x@{'1' * 40}", f"a/y@{'2' * 40}")
    assert [(release.stage, platforms) for release, platforms in book.recorded] == [
        (ReleaseStage.CONFIG, ("cpu",)),
        (ReleaseStage.WEIGHTS, ("cpu",)),
    ]
    again = poll_source(book, hub, source(), ["cpu"])
    assert again.unchanged == 2 and again.new == () and hub.asked == ["a/x", "a/y"]
    hub.repos["a/x"] = ("3" * 40, LIVE)
    assert poll_source(book, hub, source(), ["cpu"]).new == (f"a/x@{'3' * 40}",)
    assert book.polls == [("s1", None)] * 3


def test_rules_and_unknown_heads_are_ignored_with_reasons() -> None:
    hub = FakeHub({"a/x": (None, LIVE), "b/y": ("2" * 40, LIVE), "a/z": ("3" * 40, ("README.md",)), "a/s": ("4" * 40, LIVE)})
    rule = Rule(author="a", minimum_bytes=11, platforms=("h100",))
    book = FakeBook()
    report = poll_source(book, hub, source(rule), ["cpu"])
    assert [note.repo_id for note in report.ignored] == ["a/x", "b/y", "a/z", "a/s"]
    assert "which commit" in report.ignored[0].note and "minimum of 11" in report.ignored[3].note
    assert not book.recorded and "b/y" not in hub.asked and "a/x" not in hub.asked
    poll_source(book, hub, source(replace(rule, minimum_bytes=0)), ["cpu"])
    assert [(release.repo_id, platforms) for release, platforms in book.recorded] == [("a/s", ("h100",))]


def test_since_bounds_a_back_fill() -> None:
    hub, book = FakeHub({"a/x": ("1" * 40, LIVE), "a/y": ("2" * 40, LIVE)}), FakeBook()
    report = poll_source(book, hub, source(since=NOW - timedelta(hours=1)), ["cpu"])
    assert report.new == (f"a/x@{'1' * 40}",) and "before" in report.ignored[0].note


def test_one_bad_repository_never_stops_the_others() -> None:
    hub, book = FakeHub({"a/bad": BadInputError("a name climbs."), "a/good": ("1" * 40, LIVE)}), FakeBook()
    report = poll_source(book, hub, source(), ["cpu"])
    assert report.errors == (RepoNote("a/bad", "a name climbs."),) and report.new == (f"a/good@{'1' * 40}",)
    assert book.polls == [("s1", "1 of 2 repositories failed; the first, a/bad: a name climbs.")]


def test_a_hub_that_falls_silent_is_given_up_until_the_next_poll() -> None:
    silent = {f"a/{number}": UnavailableError("no answer.") for number in range(10)}
    hub, book = FakeHub(dict(silent)), FakeBook()
    report = poll_source(book, hub, source(), ["cpu"])
    assert len(hub.asked) == 3 and report.error is not None and "3 repositories in a row" in report.error
    broken = FakeHub({"a/x": ("1" * 40, LIVE), "a/y": ("2" * 40, LIVE)}, broken_after=1)
    report = poll_source(book, broken, source(), ["cpu"])
    assert report.new == (f"a/x@{'1' * 40}",) and report.error == "the hub went away."
    assert book.polls[-1] == ("s1", "the hub went away.")


def test_every_enabled_source_is_polled() -> None:
    good, off, bad = source(name="good"), replace(source(name="off"), enabled=False), source(name="bad")
    book = FakeBook((bad, off, good))
    hub = FakeHub({"a/x": ("1" * 40, LIVE)})

    def hub_of(asked: WatchSource) -> FakeHub:
        if asked.id == "bad":
            raise BadInputError("no such hub.")
        return hub

    reports = poll_all(book, hub_of, ["cpu"])
    assert [(report.source_id, report.error, len(report.new)) for report in reports] == [
        ("bad", "no such hub.", 0),
        ("good", None, 1),
    ]
    assert book.polls == [("bad", "no such hub."), ("good", None)]
