"""Rounds of telling: what is delivered, postponed, given up, and under which id; with a clock that only the test moves."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.domain.events import Event, EventKind
from dayzero.domain.subscriptions import Channel, Delivery, DeliveryState, Subscription
from dayzero.errors import BadInputError, UnavailableError
from dayzero.steps.telling import DEFAULT_PERSISTENCE, Persistence, deliver_due, wait_s

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
    """The deliveries part of an outbox, with leases, in memory."""

    clock: TestClock
    deliveries: dict[str, Delivery] = field(default_factory=dict)
    hidden_until_s: dict[str, float] = field(default_factory=dict)

    def add(self, number: int) -> None:
        name = f"delivery-{number}"
        self.deliveries[name] = Delivery(name, f"event-{number}", SUBSCRIPTION.id, DeliveryState.PENDING, 0, START)

    def claim_due(self, limit: int, lease_s: float) -> list[tuple[Delivery, Event, Subscription]]:
        due = [
            delivery
            for delivery in self.deliveries.values()
            if delivery.state is DeliveryState.PENDING
            and delivery.next_try_at <= self.clock.now()
            and self.hidden_until_s.get(delivery.id, -1.0) <= self.clock.seconds
        ][:limit]
        due = [replace(delivery, tries=delivery.tries + 1) for delivery in due]
        for delivery in due:
            self.deliveries[delivery.id] = delivery
            self.hidden_until_s[delivery.id] = self.clock.seconds + lease_s
        return [(delivery, Event(delivery.event_id, EventKind.ENTRY_CHANGED, "org/m", START), SUBSCRIPTION) for delivery in due]

    def delivered(self, delivery_id: str) -> None:
        self.deliveries[delivery_id] = replace(self.deliveries[delivery_id], state=DeliveryState.DELIVERED)

    def undelivered(self, delivery_id: str, error: str, retry_in_s: float | None) -> None:
        old = self.deliveries[delivery_id]
        state = DeliveryState.DEAD if retry_in_s is None else DeliveryState.PENDING
        again = self.clock.now() + timedelta(seconds=retry_in_s or 0.0)
        self.deliveries[delivery_id] = replace(old, state=state, next_try_at=again, last_error=error)
        self.hidden_until_s.pop(delivery_id, None)

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
    got: list[str] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)

    def deliver(self, subscription: Subscription, event: Event, delivery: Delivery) -> None:
        self.got.append(event.id)
        if self.always is not None:
            raise self.always
        if self.errors:
            raise self.errors.pop(0)
        self.taken.append(event.id)


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


@pytest.fixture
def outbox(clock: TestClock) -> MemoryOutbox:
    return MemoryOutbox(clock)


def test_fails_twice_then_is_taken_under_the_same_id(clock: TestClock, outbox: MemoryOutbox) -> None:
    outbox.add(1)
    receiver = Receiver([UnavailableError("down"), UnavailableError("still down")])
    rounds = []
    for _ in range(4):
        rounds.append(deliver_due(outbox, receiver, clock))
        clock.seconds += 60
    assert receiver.got == ["event-1"] * 3
    assert [len(one.postponed) for one in rounds] == [1, 1, 0, 0]
    assert [one.delivered for one in rounds] == [(), (), ("delivery-1",), ()]
    assert "down" in rounds[0].problems[0]
    assert outbox.deliveries["delivery-1"].state is DeliveryState.DELIVERED


def test_is_not_tried_before_its_wait_is_over(clock: TestClock, outbox: MemoryOutbox) -> None:
    outbox.add(1)
    receiver = Receiver([UnavailableError("busy", retry_after_s=100.0)])
    deliver_due(outbox, receiver, clock)
    clock.seconds = 99.0
    assert deliver_due(outbox, receiver, clock).delivered == ()
    clock.seconds = 100.0
    assert deliver_due(outbox, receiver, clock).delivered == ("delivery-1",)


def test_dies_after_so_many_tries(clock: TestClock, outbox: MemoryOutbox) -> None:
    outbox.add(1)
    receiver = Receiver(always=UnavailableError("never there"))
    for _ in range(40):
        deliver_due(outbox, receiver, clock)
        clock.seconds += DEFAULT_PERSISTENCE.longest_wait_s
    assert len(receiver.got) == DEFAULT_PERSISTENCE.max_tries
    assert outbox.deliveries["delivery-1"].state is DeliveryState.DEAD
    assert outbox.deliveries["delivery-1"].last_error == "never there"


def test_a_subscriber_that_is_gone_is_not_tried_again(clock: TestClock, outbox: MemoryOutbox) -> None:
    outbox.add(1)
    assert deliver_due(outbox, Receiver([BadInputError("gone (410)")]), clock).dead == ("delivery-1",)
    assert outbox.deliveries["delivery-1"].state is DeliveryState.DEAD


def test_one_failing_delivery_holds_up_no_other(clock: TestClock, outbox: MemoryOutbox) -> None:
    for number in range(3):
        outbox.add(number)
    report = deliver_due(outbox, Receiver([UnavailableError("once")]), clock)
    assert report.postponed == ("delivery-0",)
    assert report.delivered == ("delivery-1", "delivery-2")


def test_killed_between_taking_and_noting_it_repeats_the_same_id(clock: TestClock, outbox: MemoryOutbox) -> None:
    class Killed(BaseException):
        pass

    class Dying(Receiver):
        def deliver(self, subscription: Subscription, event: Event, delivery: Delivery) -> None:
            super().deliver(subscription, event, delivery)
            raise Killed

    outbox.add(1)
    dying, after = Dying(), Receiver()
    with pytest.raises(Killed):
        deliver_due(outbox, dying, clock, lease_s=60.0)
    assert deliver_due(outbox, after, clock).delivered == ()
    clock.seconds = 60.0
    assert deliver_due(outbox, after, clock).delivered == ("delivery-1",)
    assert dying.taken == after.taken == ["event-1"]


def test_a_slow_round_ends_and_leaves_the_rest_unleased(clock: TestClock, outbox: MemoryOutbox) -> None:
    class Slow(Receiver):
        def deliver(self, subscription: Subscription, event: Event, delivery: Delivery) -> None:
            super().deliver(subscription, event, delivery)
            clock.seconds += 40.0

    for number in range(5):
        outbox.add(number)
    slow = Slow()
    assert len(deliver_due(outbox, slow, clock, round_s=60.0).delivered) == 2
    assert len(deliver_due(outbox, slow, clock, round_s=600.0).delivered) == 3


@given(st.text(max_size=40), st.integers(0, 10_000))
def test_waits_grow_are_bounded_and_the_same_every_time(name: str, tries: int) -> None:
    now, later = wait_s(name, tries), wait_s(name, tries + 1)
    assert now == wait_s(name, tries)
    assert 0 < now <= DEFAULT_PERSISTENCE.longest_wait_s
    assert later > now or later >= 0.75 * DEFAULT_PERSISTENCE.longest_wait_s


def test_waits_differ_between_deliveries() -> None:
    assert len({wait_s(f"delivery-{number}", 3) for number in range(50)}) == 50
    assert wait_s("a", 0, Persistence(first_wait_s=1.0)) <= 1.0
