"""Rounds of telling: what is delivered, postponed, given up, and under which id; with a clock that only the test moves."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.domain.events import Event, EventKind
from dayzero.domain.subscriptions import (
    AT_ONCE,
    Absence,
    Channel,
    Delivery,
    DeliveryState,
    Lane,
    Manner,
    Outcome,
    Subscription,
)
from dayzero.errors import BadInputError, UnavailableError, UnreachableError
from dayzero.steps.telling import DEFAULT_PERSISTENCE, DeliveryReport, Persistence, serve_lane, wait_s

START = datetime(2026, 1, 1, tzinfo=UTC)
SUBSCRIPTION = Subscription("sub-1", Channel.WEBHOOK, "https://example.org/hook", "", "whsec_c2VjcmV0", START)


@dataclass
class TestClock:
    """A clock that stands still until it is moved."""

    __test__ = False
    seconds: float = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def monotonic_s(self) -> float:
        return self.seconds


@dataclass
class MemoryOutbox:
    """The lanes part of an outbox, in memory."""

    clock: TestClock
    deliveries: dict[str, Delivery] = field(default_factory=dict)
    subjects: dict[str, str] = field(default_factory=dict)
    manner: Manner = AT_ONCE
    leased_until_s: float = -1.0
    rests_until_s: float = -1.0
    absences: int = 0
    settled: list[tuple[tuple[Outcome, ...], Absence | None]] = field(default_factory=list)

    def add(self, number: int, subject: str | None = None) -> None:
        name = f"delivery-{number}"
        self.deliveries[name] = Delivery(name, f"event-{number}", SUBSCRIPTION.id, DeliveryState.PENDING, 0, START)
        self.subjects[name] = subject or f"org/m{number}"

    def take_lane(self, limit: int, lease_s: float) -> Lane | None:
        if max(self.leased_until_s, self.rests_until_s) > self.clock.seconds:
            return None
        due: list[tuple[Delivery, Event]] = []
        waiting: set[str] = set()
        for name, delivery in self.deliveries.items():
            if delivery.state is not DeliveryState.PENDING or self.subjects[name] in waiting:
                continue
            if delivery.next_try_at > self.clock.now():
                waiting.add(self.subjects[name])
                continue
            due.append((delivery, Event(delivery.event_id, EventKind.ENTRY_CHANGED, self.subjects[name], START)))
        if not due:
            return None
        self.leased_until_s = self.clock.seconds + lease_s
        digest_id = None if self.manner.digest_every_s is None else "digest-1"
        return Lane(replace(SUBSCRIPTION, manner=self.manner), "holder", self.absences, tuple(due[:limit]), digest_id)

    def settle(self, lane: Lane, outcomes: Sequence[Outcome], absence: Absence | None) -> int:
        self.settled.append((tuple(outcomes), absence))
        self.leased_until_s = -1.0
        for one in outcomes:
            old = self.deliveries[one.delivery_id]
            state = DeliveryState.DELIVERED if one.error is None else DeliveryState.PENDING
            if one.error is not None and one.retry_in_s is None:
                state = DeliveryState.DEAD
            again = self.clock.now() + timedelta(seconds=one.retry_in_s or 0.0)
            tries = old.tries + (one.error is not None)
            self.deliveries[one.delivery_id] = replace(old, state=state, next_try_at=again, tries=tries, last_error=one.error)
        self.absences = 0 if absence is None else self.absences + 1
        if absence is not None:
            self.rests_until_s = self.clock.seconds + absence.rest_s
        return 0

    def unemitted(self, limit: int) -> list[Event]:
        raise NotImplementedError

    def emitted(self, event_id: str) -> None:
        raise NotImplementedError

    def fan_out(self, limit: int) -> int:
        raise NotImplementedError


@dataclass
class Receiver:
    """Takes events, or answers with the errors it was given first."""

    errors: list[Exception] = field(default_factory=list)
    always: Exception | None = None
    poison: frozenset[str] = frozenset()
    got: list[str] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)
    digests: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    def check(self, channel: Channel, target: str) -> None:
        raise NotImplementedError

    def deliver(self, subscription: Subscription, event: Event) -> None:
        self.got.append(event.id)
        if event.id in self.poison:
            raise UnreachableError("no answer")
        if self.always is not None:
            raise self.always
        if self.errors:
            raise self.errors.pop(0)
        self.taken.append(event.id)

    def deliver_digest(self, subscription: Subscription, digest_id: str, events: Sequence[Event]) -> None:
        self.digests.append((digest_id, tuple(event.id for event in events)))
        if self.errors:
            raise self.errors.pop(0)


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


@pytest.fixture
def outbox(clock: TestClock) -> MemoryOutbox:
    return MemoryOutbox(clock)


def served(outbox: MemoryOutbox, receiver: Receiver, clock: TestClock, round_s: float = 30.0) -> DeliveryReport:
    return serve_lane(outbox, receiver, clock, round_s=round_s) or DeliveryReport()


def test_fails_twice_then_is_taken_under_the_same_id(clock: TestClock, outbox: MemoryOutbox) -> None:
    outbox.add(1)
    receiver = Receiver([UnavailableError("down"), UnavailableError("still down")])
    rounds = []
    for _ in range(4):
        rounds.append(served(outbox, receiver, clock))
        clock.seconds += 60
    assert receiver.got == ["event-1"] * 3
    assert [len(one.postponed) for one in rounds] == [1, 1, 0, 0]
    assert [one.delivered for one in rounds] == [(), (), ("delivery-1",), ()]
    assert "down" in rounds[0].problems[0]
    assert outbox.deliveries["delivery-1"].state is DeliveryState.DELIVERED


def test_nobody_due_is_said(clock: TestClock, outbox: MemoryOutbox) -> None:
    assert serve_lane(outbox, Receiver(), clock) is None


def test_is_not_tried_before_its_wait_is_over(clock: TestClock, outbox: MemoryOutbox) -> None:
    outbox.add(1)
    receiver = Receiver([UnreachableError("busy", retry_after_s=100.0)])
    served(outbox, receiver, clock)
    clock.seconds = 99.0
    assert served(outbox, receiver, clock).delivered == ()
    clock.seconds = 100.0
    assert served(outbox, receiver, clock).delivered == ("delivery-1",)


def test_dies_after_so_many_tries(clock: TestClock, outbox: MemoryOutbox) -> None:
    outbox.add(1)
    receiver = Receiver(always=UnavailableError("never there"))
    for _ in range(40):
        served(outbox, receiver, clock)
        clock.seconds += DEFAULT_PERSISTENCE.longest_wait_s
    assert len(receiver.got) == DEFAULT_PERSISTENCE.max_tries
    assert outbox.deliveries["delivery-1"].state is DeliveryState.DEAD
    assert outbox.deliveries["delivery-1"].last_error == "never there"


def test_a_subscriber_that_is_gone_is_not_tried_again(clock: TestClock, outbox: MemoryOutbox) -> None:
    outbox.add(1)
    assert served(outbox, Receiver([BadInputError("gone (410)")]), clock).dead == ("delivery-1",)
    assert outbox.deliveries["delivery-1"].state is DeliveryState.DEAD


def test_one_failing_delivery_holds_up_no_other_subject(clock: TestClock, outbox: MemoryOutbox) -> None:
    for number in range(3):
        outbox.add(number)
    report = served(outbox, Receiver([UnavailableError("once")]), clock)
    assert report.postponed == ("delivery-0",)
    assert report.delivered == ("delivery-1", "delivery-2")


def test_what_follows_on_an_undelivered_event_of_its_subject_waits(clock: TestClock, outbox: MemoryOutbox) -> None:
    for number, subject in enumerate(("a", "b", "a", "b", "a")):
        outbox.add(number, subject)
    receiver = Receiver([UnavailableError("once")])
    assert served(outbox, receiver, clock).delivered == ("delivery-1", "delivery-3")
    assert served(outbox, receiver, clock).delivered == ()
    clock.seconds = 60.0
    assert served(outbox, receiver, clock).delivered == ("delivery-0", "delivery-2", "delivery-4")


def test_one_that_cannot_be_reached_rests_and_is_not_asked_for_all_that_waits(clock: TestClock, outbox: MemoryOutbox) -> None:
    for number in range(50):
        outbox.add(number)
    receiver = Receiver(always=UnreachableError("nobody there"))
    served(outbox, receiver, clock)
    assert len(receiver.got) == 2
    ((outcomes, absence),) = outbox.settled
    assert len(outcomes) == 2 and absence is not None and absence.max_tries == DEFAULT_PERSISTENCE.max_tries
    assert served(outbox, receiver, clock) == DeliveryReport()
    clock.seconds += absence.rest_s
    served(outbox, receiver, clock)
    later = outbox.settled[-1][1]
    assert later is not None and later.rest_s > absence.rest_s


def test_messages_that_it_chokes_on_hold_up_no_others(clock: TestClock, outbox: MemoryOutbox) -> None:
    for number in range(6):
        outbox.add(number)
    receiver = Receiver(poison=frozenset(("event-0", "event-1")))
    for _ in range(3):
        served(outbox, receiver, clock)
        clock.seconds = max(outbox.rests_until_s, clock.seconds + 60)
    assert set(receiver.taken) == {f"event-{number}" for number in range(2, 6)}
    assert outbox.settled[-1][1] is not None, "with nothing but them left, it counts as absent"


def test_a_digest_is_one_message_and_repeats_as_it_was(clock: TestClock, outbox: MemoryOutbox) -> None:
    outbox.manner = Manner(digest_every_s=3600)
    for number in range(3):
        outbox.add(number, "a")
    receiver = Receiver([UnavailableError("once")])
    assert len(served(outbox, receiver, clock).postponed) == 3
    clock.seconds = 60.0
    assert len(served(outbox, receiver, clock).delivered) == 3
    assert receiver.digests == [("digest-1", ("event-0", "event-1", "event-2"))] * 2


def test_killed_between_taking_and_noting_it_repeats_the_same_id(clock: TestClock, outbox: MemoryOutbox) -> None:
    class Killed(BaseException):
        pass

    class Dying(Receiver):
        def deliver(self, subscription: Subscription, event: Event) -> None:
            super().deliver(subscription, event)
            raise Killed

    outbox.add(1)
    dying, after = Dying(), Receiver()
    with pytest.raises(Killed):
        serve_lane(outbox, dying, clock, lease_s=60.0)
    assert served(outbox, after, clock).delivered == ()
    clock.seconds = 60.0
    assert served(outbox, after, clock).delivered == ("delivery-1",)
    assert dying.taken == after.taken == ["event-1"]


def test_a_slow_round_ends_and_leaves_the_rest_for_the_next(clock: TestClock, outbox: MemoryOutbox) -> None:
    class Slow(Receiver):
        def deliver(self, subscription: Subscription, event: Event) -> None:
            super().deliver(subscription, event)
            clock.seconds += 40.0

    for number in range(5):
        outbox.add(number)
    slow = Slow()
    assert len(served(outbox, slow, clock, round_s=60.0).delivered) == 2
    assert len(served(outbox, slow, clock, round_s=600.0).delivered) == 3


@given(st.text(max_size=40), st.integers(0, 10_000))
def test_waits_grow_are_bounded_and_the_same_every_time(name: str, tries: int) -> None:
    now, later = wait_s(name, tries), wait_s(name, tries + 1)
    assert now == wait_s(name, tries)
    assert 0 < now <= DEFAULT_PERSISTENCE.longest_wait_s
    assert later > now or later >= 0.75 * DEFAULT_PERSISTENCE.longest_wait_s


def test_waits_differ_between_deliveries() -> None:
    assert len({wait_s(f"delivery-{number}", 3) for number in range(50)}) == 50
    assert wait_s("a", 0, Persistence(first_wait_s=1.0)) <= 1.0
