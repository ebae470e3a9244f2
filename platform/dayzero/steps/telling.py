"""Telling subscribers: at least once, each repeat under the same id, later and later, and at last not any more."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from dayzero.domain.events import Event
from dayzero.domain.subscriptions import Absence, Delivery, Lane, Outcome
from dayzero.errors import BadInputError, DayzeroError, UnreachableError
from dayzero.ports.catalog import Outbox
from dayzero.ports.running import Clock
from dayzero.ports.telling import Notifier

SILENT_ENOUGH = 2
"""Deliveries in a row that nobody answered, after which the subscriber counts as absent."""


@dataclass(frozen=True, slots=True)
class Persistence:
    """How long a subscriber that does not take a delivery is tried: the defaults last about a day.

    The wait after try n (from 0) is `first_wait_s · factor^n`, at most `longest_wait_s`, less up to a quarter of jitter.
    """

    max_tries: int = 12
    first_wait_s: float = 5.0
    factor: float = 3.0
    longest_wait_s: float = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """One round: delivery ids that were taken, that will be tried again, and that never will be, with what went wrong."""

    delivered: tuple[str, ...] = ()
    postponed: tuple[str, ...] = ()
    dead: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    died: int = 0

    def __add__(self, other: "DeliveryReport") -> "DeliveryReport":
        """Both rounds as one."""
        return DeliveryReport(
            self.delivered + other.delivered,
            self.postponed + other.postponed,
            self.dead + other.dead,
            self.problems + other.problems,
            self.died + other.died,
        )


DEFAULT_PERSISTENCE = Persistence()


def wait_s(name: str, tries: int, persistence: Persistence = DEFAULT_PERSISTENCE) -> float:
    """Seconds to wait after that many earlier tries; the same for the same name and count, different across names."""
    power = min(tries, 64)  # factor^64 is past every longest wait and still a finite double
    full = min(persistence.first_wait_s * persistence.factor**power, persistence.longest_wait_s)
    draw = hashlib.sha256(f"{name}:{tries}".encode()).digest()[:4]
    return full * (1 - 0.25 * int.from_bytes(draw) / 2**32)


@dataclass(slots=True)
class _Round:
    """What a lane has come to so far."""

    outcomes: list[Outcome] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    blocked: set[str] = field(default_factory=set)
    answered: bool = False
    silent: int = 0
    last_silence: DayzeroError | None = None

    @property
    def absent(self) -> bool:
        """Whether the subscriber counts as absent: several unanswered in a row, or nothing answered at all."""
        return self.silent >= SILENT_ENOUGH or (self.silent > 0 and not self.answered)


def serve_lane(
    outbox: Outbox,
    notifier: Notifier,
    clock: Clock,
    *,
    limit: int = 100,
    lease_s: float = 90.0,
    round_s: float = 30.0,
    persistence: Persistence = DEFAULT_PERSISTENCE,
) -> DeliveryReport | None:
    """Tell one subscriber what is due, in order, until all was tried, it is absent, or `round_s` passed; None: nobody is due.

    What follows on an undelivered event of the same subject waits for it. Killed at any line, it loses nothing: the lease
    runs out, and what was not noted is delivered again under the same message id.
    """
    lane = outbox.take_lane(limit, lease_s)
    if lane is None:
        return None
    done = _digest(lane, notifier, persistence) if lane.digest_id is not None else _one_by_one(
        lane, notifier, clock, clock.monotonic_s() + round_s, persistence
    )  # fmt: skip
    absence = None
    if done.absent and done.last_silence is not None:
        rest_s = max(
            min(done.last_silence.retry_after_s or 0.0, persistence.longest_wait_s),
            wait_s(lane.subscription.id, lane.absences, persistence),
        )
        absence = Absence(str(done.last_silence), rest_s, persistence.max_tries)
    died = outbox.settle(lane, done.outcomes, absence)
    failed = [one for one in done.outcomes if one.error is not None]
    return DeliveryReport(
        tuple(one.delivery_id for one in done.outcomes if one.error is None),
        tuple(one.delivery_id for one in failed if one.retry_in_s is not None),
        tuple(one.delivery_id for one in failed if one.retry_in_s is None),
        tuple(done.problems),
        died,
    )


def _one_by_one(lane: Lane, notifier: Notifier, clock: Clock, ends_s: float, persistence: Persistence) -> _Round:
    done = _Round()
    for delivery, event in _fresh_first(lane.due):
        if clock.monotonic_s() > ends_s or done.silent >= SILENT_ENOUGH:
            break
        if event.subject in done.blocked:
            continue
        try:
            notifier.deliver(lane.subscription, event)
        except DayzeroError as error:
            _failed(done, lane, (delivery,), (event,), error, persistence)
        else:
            done.outcomes.append(Outcome(delivery.id))
            done.answered, done.silent = True, 0
    return done


def _digest(lane: Lane, notifier: Notifier, persistence: Persistence) -> _Round:
    assert lane.digest_id is not None, "the caller asked"
    done = _Round()
    deliveries, events = zip(*lane.due, strict=True)
    try:
        notifier.deliver_digest(lane.subscription, lane.digest_id, events)
    except DayzeroError as error:
        _failed(done, lane, deliveries, events, error, persistence)
    else:
        done.outcomes = [Outcome(delivery.id) for delivery in deliveries]
        done.answered = True
    return done


def _failed(
    done: _Round, lane: Lane, deliveries: Sequence[Delivery], events: Sequence[Event], error: DayzeroError, how: Persistence
) -> None:
    if isinstance(error, UnreachableError):
        done.silent, done.last_silence = done.silent + 1, error
    else:
        done.answered, done.silent = True, 0
    for delivery, event in zip(deliveries, events, strict=True):
        done.blocked.add(event.subject)
        done.outcomes.append(Outcome(delivery.id, str(error), _again_in_s(delivery, error, how)))
    done.problems.append(f"{events[0].kind.value} {events[0].id} to subscription {lane.subscription.id}: {error}")


def _fresh_first(due: Sequence[tuple[Delivery, Event]]) -> list[tuple[Delivery, Event]]:
    """In order within a subject; subjects whose first delivery failed less often come first, so that no message that a
    subscriber chokes on holds up the others for good."""
    failed: dict[str, int] = {}
    for delivery, event in due:
        failed.setdefault(event.subject, delivery.tries)
    return sorted(due, key=lambda pair: failed[pair[1].subject])


def _again_in_s(delivery: Delivery, error: DayzeroError, persistence: Persistence) -> float | None:
    """When to try again, or None for never: refused for good, or tried often enough, this try included."""
    if isinstance(error, BadInputError) or delivery.tries + 1 >= persistence.max_tries:
        return None
    asked_s = min(error.retry_after_s or 0.0, persistence.longest_wait_s)
    return max(asked_s, wait_s(delivery.id, delivery.tries, persistence))
