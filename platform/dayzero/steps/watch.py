"""Poll the watched sources: new repositories and new commits become recorded releases."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dayzero.domain.release import HubKind, ReleaseStage
from dayzero.domain.watching import RepoListing, WatchSource
from dayzero.errors import DayzeroError, UnavailableError
from dayzero.ports.catalog import PassedOver, WatchBook
from dayzero.ports.hub import Hub
from dayzero.stages.watching.stages import decide

PACKAGES_EVERY = timedelta(hours=1)
"""Libraries are released a few times a month, and asking an index is no small request."""

_SILENCES_IN_A_ROW = 3
"""Repositories in a row that the hub did not answer for, after which the poll of the source is given up until the next."""


@dataclass(frozen=True, slots=True)
class RepoNote:
    """A repository and what is to be said of it in one sentence."""

    repo_id: str
    note: str


@dataclass(frozen=True, slots=True)
class PollReport:
    """One poll of one source.

    `seen`: repositories listed; `unchanged`: those whose head was known; `taken`: releases (repo@revision) that the rule
    takes; `new`: those of them that were not recorded before; `ignored` and `errors` with reasons; `error`: what ended the
    poll before all repositories were looked at.
    """

    source_id: str
    seen: int = 0
    unchanged: int = 0
    new: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    ignored: tuple[RepoNote, ...] = ()
    errors: tuple[RepoNote, ...] = ()
    error: str | None = None

    @property
    def trouble(self) -> str | None:
        """What went wrong in the poll, in one sentence; None when nothing did."""
        if self.error:
            return self.error
        if not self.errors:
            return None
        return (
            f"{len(self.errors)} of {self.seen} repositories failed; the first, {self.errors[0].repo_id}: {self.errors[0].note}"
        )


@dataclass(slots=True)
class _Tally:
    """A poll under way."""

    seen: int = 0
    unchanged: int = 0
    new: list[str] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)
    ignored: list[RepoNote] = field(default_factory=list)
    errors: list[RepoNote] = field(default_factory=list)

    def report(self, source_id: str, error: str | None) -> PollReport:
        return PollReport(
            source_id,
            self.seen,
            self.unchanged,
            tuple(self.new),
            tuple(self.taken),
            tuple(self.ignored),
            tuple(self.errors),
            error,
        )


def poll_source(book: WatchBook, hub: Hub, source: WatchSource, default_platforms: Sequence[str]) -> PollReport:
    """List a source, record each new commit that its rule takes, and note the poll in the book.

    One bad repository never stops the others. A repository whose head is the recorded one costs no further request. Events
    and adaptations are written by the book in the same transaction as the release.
    """
    tally = _Tally()
    error: str | None = None
    silences = 0
    try:
        for listing in _listings(hub, source):
            tally.seen += 1
            try:
                _poll_repo(book, hub, source, listing, default_platforms, tally)
                silences = 0
            except DayzeroError as failure:
                tally.errors.append(RepoNote(listing.repo_id, str(failure)))
                silences = silences + 1 if isinstance(failure, UnavailableError) else 0
                if silences == _SILENCES_IN_A_ROW:
                    error = f"given up after {silences} repositories in a row without an answer: {failure}"
                    break
    except DayzeroError as failure:
        error = str(failure)
    report = tally.report(source.id, error)
    passed = [PassedOver(one.repo_id, one.note) for one in report.ignored]
    failed = [PassedOver(one.repo_id, one.note, failed=True) for one in report.errors]
    if passed or failed:
        book.passed_over(source.id, (*passed, *failed))
    book.polled(source.id, report.trouble)
    return report


def poll_all(
    book: WatchBook,
    hub_of: Callable[[WatchSource], Hub],
    default_platforms: Sequence[str],
    due_at: datetime | None = None,
) -> tuple[PollReport, ...]:
    """Poll every enabled source, the oldest first; a source that cannot be polled never stops the others.

    Packages are asked at most once an hour; without `due_at` every source counts as due.
    """
    reports = []
    for source in book.sources():
        if not source.enabled or not _is_due(source, due_at):
            continue
        try:
            hub = hub_of(source)
        except DayzeroError as failure:
            book.polled(source.id, str(failure))
            reports.append(PollReport(source.id, error=str(failure)))
            continue
        reports.append(poll_source(book, hub, source, default_platforms))
    return tuple(reports)


def _is_due(source: WatchSource, at: datetime | None) -> bool:
    if source.hub is not HubKind.PYPI or at is None or source.last_polled_at is None or source.last_error is not None:
        return True
    return at - source.last_polled_at >= PACKAGES_EVERY


def endpoint_of(source: WatchSource) -> str | None:
    """The endpoint under which releases of a source are recorded: the URL for a hub, None for a folder."""
    return source.location.rstrip("/") if source.hub in (HubKind.HUGGING_FACE, HubKind.MODELSCOPE) else None


def _listings(hub: Hub, source: WatchSource) -> Iterator[RepoListing]:
    return hub.list_repos(author=source.rule.author, task=source.rule.task, since=source.since, limit=None)


def _poll_repo(
    book: WatchBook,
    hub: Hub,
    source: WatchSource,
    listing: RepoListing,
    default_platforms: Sequence[str],
    tally: _Tally,
) -> None:
    ignored = _reason_to_ignore(source, listing)
    if ignored:
        tally.ignored.append(RepoNote(listing.repo_id, ignored))
        return
    known = book.seen(source.hub, endpoint_of(source), listing.repo_id)
    if known is not None and known.revision == listing.head:
        tally.unchanged += 1
        return
    release = hub.release(listing.repo_id, listing.head)
    if release.stage is ReleaseStage.ANNOUNCED and source.hub is not HubKind.PYPI:
        tally.ignored.append(RepoNote(listing.repo_id, "there is neither config.json nor a weight file in it yet"))
        return
    decision = decide(source.rule, listing, release)
    if not decision.taken:
        tally.ignored.append(RepoNote(listing.repo_id, decision.reason))
        return
    recorded = book.record_release(release, source.rule.platforms or tuple(default_platforms))
    name = f"{listing.repo_id}@{release.revision}"
    tally.taken.append(name)
    if recorded.new:
        tally.new.append(name)


def _reason_to_ignore(source: WatchSource, listing: RepoListing) -> str | None:
    decision = decide(source.rule, listing, None)
    if not decision.taken:
        return decision.reason
    if listing.head is None:
        return "the hub does not say which commit is its head"
    if source.since and listing.last_modified and listing.last_modified < source.since:
        return f"last changed {listing.last_modified.isoformat()}, before {source.since.isoformat()}"
    return None
