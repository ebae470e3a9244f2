"""Outbox, subscriptions, deliveries, tokens and workers, against a real PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, text

from dayzero.adapters.store.outbox import SqlOutbox
from dayzero.adapters.store.subscribers import SqlSubscribers
from dayzero.adapters.store.watch_book import SqlWatchBook
from dayzero.adapters.store.workforce import SqlWorkforce
from dayzero.domain.events import EventKind
from dayzero.domain.subscriptions import Channel, DeliveryState
from dayzero.errors import BadInputError, NotFoundError
from store_nouns import SteppedClock, release

pytestmark = pytest.mark.postgres


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def outbox(engine: Engine, clock: SteppedClock) -> SqlOutbox:
    return SqlOutbox(engine, clock, emit_lease_s=15)


@pytest.fixture
def subscribers(engine: Engine, clock: SteppedClock) -> SqlSubscribers:
    return SqlSubscribers(engine, clock)


@pytest.fixture
def happen(engine: Engine, clock: SteppedClock):
    """Let so many releases go live; one event each."""
    watch = SqlWatchBook(engine, clock)

    def go_live(count: int, author: str = "org") -> None:
        for number in range(count):
            watch.record_release(release(repo_id=f"{author}/m{number}", weights=f"{author}{number}"), [])

    return go_live


def test_emitting(outbox: SqlOutbox, clock: SteppedClock, happen) -> None:
    happen(3)
    with ThreadPoolExecutor(2) as pool:
        taken = [event for batch in pool.map(lambda _: outbox.unemitted(2), range(2)) for event in batch]
    assert len({event.id for event in taken}) == len(taken) <= 3
    rest = outbox.unemitted(10)
    assert sorted(event.subject for event in (*taken, *rest)) == ["org/m0", "org/m1", "org/m2"]
    assert outbox.unemitted(10) == ()
    first = taken[0]
    assert first.kind is EventKind.RELEASE_WEIGHTS_LIVE
    assert (first.fields["model"], first.fields["repo_id"], first.fields["hub"]) == (first.subject, first.subject, "hf")
    outbox.emitted(first.id)
    clock.forward(15)
    assert {event.id for event in outbox.unemitted(10)} == {event.id for event in (*taken, *rest)} - {first.id}
    with pytest.raises(NotFoundError):
        outbox.emitted("nothing")


def test_fan_out_is_exactly_once(outbox: SqlOutbox, subscribers: SqlSubscribers, clock: SteppedClock, happen) -> None:
    happen(1, "before")
    clock.forward(1)
    everything = subscribers.subscribe(Channel.WEBHOOK, "https://a", "", "whsec_x")
    some = subscribers.subscribe(Channel.APPRISE, "mailto://b", 'model ~ "org/*" and stage = "weights"', None)
    none = subscribers.subscribe(Channel.APPRISE, "mailto://c", 'platform = "h100"', None)
    happen(4)
    happen(1, "other")
    with ThreadPoolExecutor(4) as pool:
        handled = sum(pool.map(lambda _: outbox.fan_out(2), range(12)))
    assert handled == 6
    assert outbox.fan_out(10) == 0
    counts = [len(subscribers.deliveries(each.id)) for each in (everything, some, none)]
    assert counts == [5, 4, 0]


def test_deliveries_are_claimed_by_one(outbox: SqlOutbox, subscribers: SqlSubscribers, clock: SteppedClock, happen) -> None:
    subscription = subscribers.subscribe(Channel.WEBHOOK, "https://a", "", "whsec_x")
    happen(6)
    outbox.fan_out(10)
    with ThreadPoolExecutor(3) as pool:
        claimed = [each for batch in pool.map(lambda _: outbox.claim_due(4, 30), range(3)) for each in batch]
    claimed += outbox.claim_due(10, 30)
    assert len({delivery.id for delivery, _, _ in claimed}) == len(claimed) == 6
    (first, event, to), second, third = claimed[:3]
    assert (first.event_id, first.subscription_id, first.tries, to) == (event.id, subscription.id, 1, subscription)
    outbox.delivered(first.id)
    outbox.undelivered(first.id, "a late failure", 1)
    outbox.undelivered(second[0].id, "410 gone", None)
    outbox.undelivered(third[0].id, "503", 90)
    clock.forward(31)
    again = outbox.claim_due(10, 30)
    assert sorted(delivery.tries for delivery, _, _ in again) == [2, 2, 2]
    assert {delivery.event_id for delivery, _, _ in again} < {delivery.event_id for delivery, _, _ in claimed}
    states = sorted(delivery.state for delivery in subscribers.deliveries(subscription.id))
    assert states == [DeliveryState.DEAD, DeliveryState.DELIVERED, *[DeliveryState.PENDING] * 4]
    clock.forward(60)
    assert third[0].id in {delivery.id for delivery, _, _ in outbox.claim_due(10, 30)}
    subscribers.unsubscribe(subscription.id)
    assert outbox.claim_due(10, 30) == ()
    for unknown in (outbox.delivered, subscribers.unsubscribe, subscribers.deliveries):
        with pytest.raises(NotFoundError):
            unknown("nothing")


def test_a_filter_that_no_longer_parses_is_seen(outbox: SqlOutbox, subscribers: SqlSubscribers, engine: Engine, happen) -> None:
    with pytest.raises(BadInputError):
        subscribers.subscribe(Channel.WEBHOOK, "https://a", "colour = 'red'", None)
    subscription = subscribers.subscribe(Channel.WEBHOOK, "https://a", "", None)
    with engine.begin() as connection:
        connection.execute(text("UPDATE subscriptions SET predicate = 'colour = ''red'''"))
    happen(1)
    outbox.fan_out(10)
    (delivery,) = subscribers.deliveries(subscription.id)
    assert delivery.state is DeliveryState.DEAD and "filter is not usable" in str(delivery.last_error)


def test_tokens_and_workers(engine: Engine, clock: SteppedClock) -> None:
    force = SqlWorkforce(engine, clock)
    token, allowed = force.issue_token("cpu", "jobs", 60)
    assert force.check_token(token) == allowed
    assert force.check_token(token[:-1]) is None and force.check_token("\x00\ud800") is None
    with engine.connect() as connection:
        assert token not in str(connection.execute(text("SELECT * FROM tokens")).all())
    clock.forward(60)
    assert force.check_token(token) is None
    for validity in (0, -1, float("nan"), 1e30):
        with pytest.raises(BadInputError):
            force.issue_token("cpu", "jobs", validity)
    force.worker_seen("w1", "cpu", "f", 2)
    clock.forward(50)
    force.worker_seen("w2", "cpu", "f", 2)
    assert (force.workers_alive("cpu", 60), force.workers_alive("cpu", 10), force.workers_alive("h100", 60)) == (2, 1, 0)
