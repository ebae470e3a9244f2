"""Outbox, subscriptions, deliveries, tokens and workers, against a real PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from dayzero.adapters.store.access import SqlAccess
from dayzero.adapters.store.connection import transaction
from dayzero.adapters.store.embargoes import SqlEmbargoes
from dayzero.adapters.store.events import write_event
from dayzero.adapters.store.outbox import SqlOutbox
from dayzero.adapters.store.subscribers import SqlSubscribers
from dayzero.adapters.store.watch_book import SqlWatchBook
from dayzero.adapters.store.workforce import SqlWorkforce
from dayzero.adapters.vault.fernet import FernetVault
from dayzero.domain.access import Scope, Viewer
from dayzero.domain.events import EventKind
from dayzero.domain.subscriptions import Absence, Channel, DeliveryState, Lane, Manner, Outcome, Quiet, Standing
from dayzero.errors import BadInputError, DependencyError, NotFoundError
from store_nouns import OpenVault, SteppedClock, release

pytestmark = pytest.mark.postgres


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def outbox(engine: Engine, clock: SteppedClock) -> SqlOutbox:
    return SqlOutbox(engine, clock, OpenVault(), emit_lease_s=15)


@pytest.fixture
def subscribers(engine: Engine, clock: SteppedClock) -> SqlSubscribers:
    return SqlSubscribers(engine, clock, OpenVault())


def tell(engine: Engine, clock: SteppedClock, model: str, note: int) -> None:
    with transaction(engine) as session:
        write_event(session, EventKind.ENTRY_CHANGED, model, clock.now(), {"attempt": note})


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


def test_a_lane_is_held_by_one_and_settled(outbox: SqlOutbox, subscribers: SqlSubscribers, clock: SteppedClock, happen) -> None:
    one = subscribers.subscribe(Channel.WEBHOOK, "https://a", "", "whsec_x")
    two = subscribers.subscribe(Channel.WEBHOOK, "https://b", "", "whsec_y")
    happen(6)
    outbox.fan_out(10)
    with ThreadPoolExecutor(4) as pool:
        lanes = [lane for lane in pool.map(lambda _: outbox.take_lane(4, 30), range(4)) if lane is not None]
    assert {lane.subscription for lane in lanes} == {one, two} and len(lanes) == 2
    lane = next(lane for lane in lanes if lane.subscription == one)
    assert [event.subject for _, event in lane.due] == ["org/m0", "org/m1", "org/m2", "org/m3"]
    ids = [delivery.id for delivery, _ in lane.due]
    outcomes = [Outcome(ids[0]), Outcome(ids[1], "410 gone"), Outcome(ids[2], "503", 90.0)]
    assert outbox.settle(lane, outcomes, None) == 1
    states = [(each.state, each.tries) for each in reversed(subscribers.deliveries(one.id))]
    pending = (DeliveryState.PENDING, 0)
    assert states == [(DeliveryState.DELIVERED, 0), (DeliveryState.DEAD, 1), (DeliveryState.PENDING, 1), *[pending] * 3]
    again = outbox.take_lane(10, 30)
    assert again is not None and [event.subject for _, event in again.due] == ["org/m3", "org/m4", "org/m5"]
    assert replace(subscribers.standings()[one.id], last_error=None) == Standing(4, 1, 1)
    (letter,) = subscribers.dead_letters(one.id, 10)
    assert (letter[0].id, letter[1].subject, letter[0].last_error) == (ids[1], "org/m1", "410 gone")
    assert subscribers.replay(one.id) == 1 and subscribers.dead_letters(None, 10) == ()
    for unknown in (subscribers.unsubscribe, subscribers.deliveries, subscribers.replay, subscribers.confirm):
        with pytest.raises(NotFoundError):
            unknown("nothing")
    subscribers.unsubscribe(one.id)
    assert outbox.settle(again, [Outcome(again.due[0][0].id)], None) == 0


def test_a_dead_holders_lane_comes_free_and_its_failures_no_longer_count(
    outbox: SqlOutbox, subscribers: SqlSubscribers, clock: SteppedClock, happen
) -> None:
    subscriber = subscribers.subscribe(Channel.WEBHOOK, "https://a", "", "whsec_x")
    happen(2)
    outbox.fan_out(10)
    dead = outbox.take_lane(10, 30)
    assert dead is not None and outbox.take_lane(10, 30) is None
    clock.forward(30)
    alive = outbox.take_lane(10, 30)
    assert alive is not None and alive.due == dead.due
    first, second = (delivery.id for delivery, _ in dead.due)
    outbox.settle(dead, [Outcome(first), Outcome(second, "late", None)], Absence("late", 1e4, 1))
    assert [each.state.value for each in reversed(subscribers.deliveries(subscriber.id))] == ["delivered", "pending"]
    outbox.settle(alive, [Outcome(first, "late"), Outcome(second)], None)
    assert {each.state.value for each in subscribers.deliveries(subscriber.id)} == {"delivered"}


def test_events_of_a_subject_are_in_order(
    outbox: SqlOutbox, subscribers: SqlSubscribers, engine: Engine, clock: SteppedClock
) -> None:
    def due() -> list[object]:
        lane = outbox.take_lane(10, 30)
        assert lane is not None
        lanes.append(lane)
        return [event.fields["attempt"] for _, event in lane.due]

    lanes: list[Lane] = []
    subscribers.subscribe(Channel.WEBHOOK, "https://a", "", "whsec_x")
    for number, model in enumerate(("a", "b", "a", "b", "a")):
        tell(engine, clock, model, note=number)
    outbox.fan_out(3)
    outbox.fan_out(3)
    assert due() == [0, 1, 2, 3, 4]
    outbox.settle(lanes[-1], [Outcome(lanes[-1].due[0][0].id, "no", 60.0)], None)
    assert due() == [1, 3]
    outbox.settle(lanes[-1], [Outcome(delivery.id) for delivery, _ in lanes[-1].due], None)
    assert outbox.take_lane(10, 30) is None
    clock.forward(60)
    assert due() == [0, 2, 4]


def test_absences_count_for_all_that_waited_and_for_nothing_newer(
    outbox: SqlOutbox, subscribers: SqlSubscribers, clock: SteppedClock, happen
) -> None:
    subscriber = subscribers.subscribe(Channel.WEBHOOK, "https://a", "", "whsec_x")
    happen(3)
    outbox.fan_out(10)
    died = 0
    for count in range(3):
        lane = outbox.take_lane(10, 30)
        assert lane is not None and lane.absences == count
        if count == 2:
            happen(1, "late")
            outbox.fan_out(10)
        died += outbox.settle(lane, [Outcome(lane.due[0][0].id, "nobody there", 5.0)], Absence("nobody there", 20.0, 3))
        assert outbox.take_lane(10, 30) is None, "it rests"
        clock.forward(20)
    assert died == 3
    lane = outbox.take_lane(10, 30)
    assert lane is not None and [event.subject for _, event in lane.due] == ["late/m0"] and lane.due[0][0].tries == 1
    outbox.settle(lane, [Outcome(lane.due[0][0].id)], None)
    assert subscribers.standings()[subscriber.id] == Standing(0, 1, 3, "nobody there")
    assert subscribers.replay(None) == 3
    lane = outbox.take_lane(10, 30)
    assert lane is not None and [delivery.tries for delivery, _ in lane.due] == [0, 0, 0] and lane.absences == 0


def test_a_clock_that_jumps_stops_nothing(outbox: SqlOutbox, subscribers: SqlSubscribers, clock: SteppedClock, happen) -> None:
    decade_s = 10 * 365 * 86400
    subscribers.subscribe(Channel.WEBHOOK, "https://a", "", "whsec_x")
    happen(2)
    outbox.fan_out(10)
    clock.forward(decade_s)
    lane = outbox.take_lane(10, 90)
    assert lane is not None
    outbox.settle(lane, [Outcome(lane.due[0][0].id, "no", 600.0)], Absence("no", 600.0, 12))
    assert outbox.take_lane(10, 90) is None
    clock.forward(-decade_s)
    back = outbox.take_lane(10, 90)
    assert back is not None and len(back.due) == 2, "what was meant ten years ahead is over"
    clock.forward(decade_s + 600)
    ahead = outbox.take_lane(10, 90)
    assert ahead is not None and [delivery.state for delivery, _ in ahead.due] == [DeliveryState.PENDING] * 2, "none died"


def test_what_is_under_embargo_waits_for_its_date(
    outbox: SqlOutbox, subscribers: SqlSubscribers, engine: Engine, clock: SteppedClock, happen
) -> None:
    _, token = SqlAccess(engine, clock).issue("partner", Scope.READ, 1e9)
    partner = subscribers.subscribe(Channel.WEBHOOK, "https://a", "", "whsec_x", viewer=Viewer(token.id))
    public = subscribers.subscribe(Channel.WEBHOOK, "https://b", "", "whsec_x")
    SqlEmbargoes(engine, clock).place("org/m1", None, clock.now() + timedelta(hours=1), [token.id], "agreement")
    happen(3)
    outbox.fan_out(10)
    told = {}
    for _ in range(2):
        lane = outbox.take_lane(10, 30)
        assert lane is not None
        told[lane.subscription.id] = [event.subject for _, event in lane.due]
        outbox.settle(lane, [Outcome(delivery.id) for delivery, _ in lane.due], None)
    assert told == {partner.id: ["org/m0", "org/m1", "org/m2"], public.id: ["org/m0", "org/m2"]}
    assert outbox.take_lane(10, 30) is None
    clock.forward(3599)
    assert outbox.take_lane(10, 30) is None
    clock.forward(61)
    lane = outbox.take_lane(10, 30)
    assert lane is not None and [event.subject for _, event in lane.due] == ["org/m1"]


def test_digests_wait_for_their_time_and_repeat_as_they_were(
    outbox: SqlOutbox, subscribers: SqlSubscribers, clock: SteppedClock, happen
) -> None:
    subscribers.subscribe(Channel.WEBHOOK, "https://a", "", "whsec_x", manner=Manner(digest_every_s=3600))
    happen(2)
    outbox.fan_out(10)
    first = outbox.take_lane(10, 30)
    assert first is not None and first.digest_id is not None
    happen(1, "late")
    outbox.fan_out(10)
    clock.forward(30)
    again = outbox.take_lane(10, 30)
    assert again is not None and again.digest_id == first.digest_id and again.due == first.due
    outbox.settle(again, [Outcome(delivery.id) for delivery, _ in again.due], None)
    assert outbox.take_lane(10, 30) is None
    clock.forward(3600)
    second = outbox.take_lane(10, 30)
    assert second is not None and second.digest_id != first.digest_id and len(second.due) == 1


def test_nobody_is_told_in_quiet_hours_or_before_confirming(
    outbox: SqlOutbox, subscribers: SqlSubscribers, clock: SteppedClock, happen
) -> None:
    quiet = Manner(quiet=Quiet("08:00", "13:00", "UTC"))
    made = subscribers.subscribe(Channel.WEBHOOK, "https://a", "", "whsec_x", manner=quiet, confirmed=False)
    happen(1)
    outbox.fan_out(10)
    clock.forward(7200)
    assert outbox.take_lane(10, 30) is None
    assert subscribers.confirm(made.id).confirmed_at == clock.now()
    clock.forward(-7200)
    assert outbox.take_lane(10, 30) is None
    clock.forward(3600)
    assert outbox.take_lane(10, 30) is not None


def test_addresses_and_secrets_are_locked(engine: Engine, clock: SteppedClock, tmp_path: Path) -> None:
    key = tmp_path / "keys" / "k"
    locked = SqlSubscribers(engine, clock, FernetVault(key))
    made = locked.subscribe(Channel.WEBHOOK, "https://user:hunter2@a", "", "whsec_hunter2")
    with engine.connect() as connection:
        assert "hunter2" not in str(connection.execute(text("SELECT * FROM subscriptions")).all())
    assert locked.subscription(made.id) == made
    other = FernetVault(key)
    other.new_key()
    late = locked.subscribe(Channel.WEBHOOK, "https://late", "", "whsec_late")
    for _ in range(2):
        assert locked.lock_again() == 2
        other.new_key()
        assert [one.target for one in locked.subscriptions()] == [made.target, late.target]
    assert key.stat().st_mode & 0o777 == 0o600 and len(key.read_text().split()) == 2
    assert locked.new_secret(made.id, "whsec_new", keep_old=True).secret == "whsec_new whsec_hunter2"
    key.unlink()
    with pytest.raises(DependencyError, match="key"):
        locked.subscriptions()


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
