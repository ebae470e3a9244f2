"""What only the control plane does with the truth; each method is one transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from dayzero.domain.access import ANYONE, Viewer
from dayzero.domain.adaptation import Adaptation, AdaptationState, Lease, Purpose
from dayzero.domain.entry import CompatibilityEntry, DayZeroClock
from dayzero.domain.events import Event
from dayzero.domain.platforms import Stack
from dayzero.domain.precision_policy import PrecisionPolicy
from dayzero.domain.release import HubKind, Release, ReleaseStage
from dayzero.domain.subscriptions import (
    AT_ONCE,
    Absence,
    Channel,
    Delivery,
    Lane,
    Manner,
    Outcome,
    Standing,
    Subscription,
)
from dayzero.domain.verdict import Mode
from dayzero.domain.waivers import Waiver
from dayzero.domain.watching import Rule, WatchSource


@dataclass(frozen=True, slots=True)
class SeenRepo:
    """The newest release of a repository that is recorded."""

    release_id: str
    revision: str
    stage: ReleaseStage
    content_id: str


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A repository that a poll did not take, and why; `failed`: it could not be looked at."""

    repo_id: str
    reason: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Recorded:
    """What recording a release did: its id, whether it was new, and the adaptations requested for it."""

    release_id: str
    new: bool
    adaptations: tuple[str, ...]


class WatchBook(Protocol):
    """Sources, and the releases seen on them."""

    def sources(self) -> Sequence[WatchSource]:
        """Every source, the oldest first."""
        ...

    def add_source(self, hub: HubKind, location: str, rule: Rule, since: datetime | None) -> WatchSource:
        """A new source; the same hub, location and rule again returns the existing one."""
        ...

    def remove_source(self, source_id: str) -> None:
        """Stop watching; releases seen stay. NotFoundError."""
        ...

    def polled(self, source_id: str, error: str | None) -> None:
        """Note the time of a poll and what went wrong in it (None: nothing)."""
        ...

    def passed_over(self, source_id: str, noted: Sequence[PassedOver]) -> None:
        """Note repositories that a poll did not take, and why; what was noted of one before is replaced if it differs."""
        ...

    def seen(self, hub: HubKind, endpoint: str | None, repo_id: str) -> SeenRepo | None:
        """What is recorded of a repository."""
        ...

    def record_release(self, release: Release, platforms: Sequence[str]) -> Recorded:
        """Record a release and all that follows from it, in one transaction.

        A release (hub, endpoint, repository, revision) is recorded once; a stage that moved on updates it. Its model is
        made if it is new, earlier releases of the repository with another content id become superseded, the events go to
        the outbox, and adaptations are requested: PRESTAGE for a configuration, ADAPT for live weights. A commit that
        leaves the content id as it was requests nothing and writes no weights-live event.
        """
        ...


class Catalog(Protocol):
    """Adaptations and entries."""

    def request(self, release_id: str, platform: str, purpose: Purpose, mode: Mode = Mode.INFERENCE) -> Adaptation:
        """The adaptation of that release's content for that platform, made if there is none yet (unique)."""
        ...

    def adaptations(self, *, model: str | None = None, state: AdaptationState | None = None) -> Sequence[Adaptation]:
        """Adaptations, the newest first."""
        ...

    def startable(self, orphan_after_s: float, max_attempts: int) -> Sequence[Adaptation]:
        """Adaptations to start now: requested ones, and running ones whose heartbeat is older than orphan_after_s.

        Each is returned with the attempt number that its next start must carry. Asking again before a start claims it
        returns the same attempt. Orphans lose their claim in this transaction; one that has used up max_attempts is failed
        with that reason instead.
        """
        ...

    def finish(self, lease: Lease, state: AdaptationState, reason: str | None, entry: CompatibilityEntry | None) -> Adaptation:
        """End the attempt, append the entry if it differs from the current one of its key, write the events.

        StaleAttemptError when a newer attempt holds it; finishing an attempt again changes nothing.
        """
        ...

    def hold(self, adaptation_id: str, reason: str) -> Adaptation:
        """Block a requested adaptation that cannot start yet, with the reason; one that runs or has ended is left alone."""
        ...

    def resume(self, platform: str, reason: str) -> Sequence[Adaptation]:
        """Request again every adaptation of the platform that is blocked for exactly this reason."""
        ...

    def cancel(self, adaptation_id: str) -> Adaptation:
        """Cancel: whoever holds it can write nothing more. NotFoundError."""
        ...

    def retry(self, adaptation_id: str) -> Adaptation:
        """Request a finished, blocked, failed or cancelled adaptation again. BadInputError while it is running."""
        ...

    def follow(self, adaptation_id: str, policy: PrecisionPolicy | None) -> Adaptation:
        """Let the targets compute by a precision policy (None: in the native dtype), from the next attempt on.

        Where that changes anything the adaptation is requested again, without the checks, measurements and results of before.
        BadInputError while it is running; NotFoundError.
        """
        ...

    def log_lines(self, adaptation_id: str, after: int = 0) -> Sequence[tuple[int, datetime, str]]:
        """The adaptation's log: (number, time, line), those after a number."""
        ...

    def clock_of(self, adaptation_id: str) -> DayZeroClock:
        """The day-0 clock of the adaptation's model and platform, as far as it has run."""
        ...

    def model_names(self, model: str) -> Sequence[str]:
        """A model's name and its aliases."""
        ...

    def waivers(self) -> Sequence[Waiver]:
        """Every waiver, those that expired or were ended included, the oldest first."""
        ...

    def waive(self, model: str, platform: str, check: str, reason: str, owner: str, until: datetime) -> Waiver:
        """A new waiver from now on. BadInputError: it has expired already, or says nothing of who and why."""
        ...

    def end_waiver(self, waiver_id: str) -> Waiver:
        """End a waiver now; ending it again changes nothing. NotFoundError."""
        ...


class CompatibilityList(Protocol):
    """Entries as people ask for them; the columns are those of the SQL view `compatibility_current`.

    What an embargo hides from the list's viewer is in no row, count or error of it.
    """

    def seen_by(self, viewer: Viewer) -> "CompatibilityList":
        """The same list through another's eyes."""
        ...

    def current(self, predicate: str = "", *, limit: int = 1000) -> Sequence[Mapping[str, object]]:
        """Rows of the current entries that match the predicate, by model, platform and key."""
        ...

    def rollup(self) -> Sequence[Mapping[str, object]]:
        """One row a model × platform."""
        ...

    def clock(self, model: str | None = None, platform: str | None = None) -> Sequence[Mapping[str, object]]:
        """One row a model × platform (columns CLOCK_COLUMNS), the latest weights first."""
        ...

    def league(self, target_s: float = ...) -> Sequence[Mapping[str, object]]:
        """One row a platform (columns LEAGUE_COLUMNS), the best first."""
        ...

    def entry(self, entry_id: str) -> CompatibilityEntry:
        """One entry; an unambiguous prefix of its id will do. NotFoundError."""
        ...

    def history(self, model: str, platform: str | None = None) -> Sequence[Mapping[str, object]]:
        """Every version of the model's entries, the newest first."""
        ...

    def stacks(self, platform: str) -> Sequence[Stack]:
        """Every stack that was told of for the platform, the newest first."""
        ...


class Outbox(Protocol):
    """Events on their way out, and their deliveries. Rows are claimed, never taken by "id greater than"."""

    def unemitted(self, limit: int) -> Sequence[Event]:
        """Events that the orchestrator has not been told of."""
        ...

    def emitted(self, event_id: str) -> None:
        """The orchestrator was told."""
        ...

    def fan_out(self, limit: int) -> int:
        """Make a delivery for each event × matching subscription, once, in the order of the events; the events handled."""
        ...

    def take_lane(self, limit: int, lease_s: float) -> Lane | None:
        """What one subscriber is to be told now, leased for lease_s seconds; the one that waited longest first.

        Of one subject only what follows on nothing undelivered; nothing that the subscriber may not see.
        """
        ...

    def settle(self, lane: Lane, outcomes: Sequence[Outcome], absence: Absence | None) -> int:
        """Note what became of a lane's deliveries and give the lane back; how many of its deliveries died.

        What was taken counts whoever reports it; failures count only while the lane is still this holder's.
        """
        ...


class Subscribers(Protocol):
    """Who wants to know what."""

    def subscribe(
        self,
        channel: Channel,
        target: str,
        predicate: str,
        secret: str | None,
        *,
        viewer: Viewer = ANYONE,
        manner: Manner = AT_ONCE,
        confirmed: bool = True,
    ) -> Subscription:
        """A new subscription; it gets events from now on, once it is confirmed, as far as the viewer may see them."""
        ...

    def subscriptions(self) -> Sequence[Subscription]:
        """Every subscription, the oldest first."""
        ...

    def subscription(self, subscription_id: str) -> Subscription:
        """One of them. NotFoundError."""
        ...

    def confirm(self, subscription_id: str) -> Subscription:
        """It was confirmed by whoever is reached there; again changes nothing. NotFoundError."""
        ...

    def unsubscribe(self, subscription_id: str) -> None:
        """Remove it. NotFoundError."""
        ...

    def deliveries(self, subscription_id: str) -> Sequence[Delivery]:
        """What was delivered, or is about to be, the newest first. NotFoundError."""
        ...

    def standings(self) -> Mapping[str, Standing]:
        """How the deliveries of each subscription stand."""
        ...

    def dead_letters(self, subscription_id: str | None, limit: int) -> Sequence[tuple[Delivery, Event]]:
        """What was given up (of every subscription: None), in order."""
        ...

    def replay(self, subscription_id: str | None, delivery_id: str | None = None) -> int:
        """Try dead letters again as if they had never been tried: all, those of one subscription, or one; how many."""
        ...

    def new_secret(self, subscription_id: str, secret: str, *, keep_old: bool) -> Subscription:
        """Sign with this secret from now on, and (keep_old) with the newest one before it as well. NotFoundError."""
        ...

    def lock_again(self) -> int:
        """Lock every address and secret with the newest key; how many subscriptions."""
        ...


@dataclass(frozen=True, slots=True)
class WorkerToken:
    """What a token allows: jobs of one platform until it expires. The token itself is stored only as its sha256."""

    id: str
    platform: str
    scope: str
    expires_at: datetime


class Workforce(Protocol):
    """Workers and their tokens."""

    def issue_token(self, platform: str, scope: str, valid_s: float) -> tuple[str, WorkerToken]:
        """A new token (shown once) and what it allows."""
        ...

    def check_token(self, token: str) -> WorkerToken | None:
        """What the token allows, or None when it is unknown or has expired."""
        ...

    def worker_seen(self, worker_id: str, platform: str, stack_fingerprint: str, devices: int) -> None:
        """A worker said that it lives."""
        ...

    def workers_alive(self, platform: str, within_s: float) -> int:
        """How many workers of a platform were seen lately."""
        ...
