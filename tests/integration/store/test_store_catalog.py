"""Recording releases, requesting, starting and finishing work, against a real PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine

from dayzero.domain.adaptation import AdaptationState, Lease, Purpose
from dayzero.domain.entry import Correctness, Lifecycle
from dayzero.domain.precision_policy import PrecisionPolicy, Promotion
from dayzero.domain.release import HubKind, ReleaseStage
from dayzero.domain.results import result_key
from dayzero.domain.verdict import Verdict
from dayzero.domain.waivers import Waiver
from dayzero.domain.watching import Rule
from dayzero.errors import BadInputError, NotFoundError, StaleAttemptError
from store_nouns import check, entry, release
from store_scene import Store

pytestmark = pytest.mark.postgres


@pytest.fixture
def store(engine: Engine, tmp_path: Path) -> Store:
    return Store(engine, tmp_path / "artifacts")


def test_config_then_weights(store: Store) -> None:
    first = store.watch.record_release(release("r1", ReleaseStage.CONFIG), ["cpu"])
    again = store.watch.record_release(release("r1", ReleaseStage.CONFIG), ["cpu"])
    partial = store.watch.record_release(release("r2", ReleaseStage.WEIGHTS_PARTIAL, weights="half"), ["cpu"])
    live = store.watch.record_release(release("r2", ReleaseStage.WEIGHTS), ["cpu"])
    assert (first.new, again.new, partial.new, live.new) == (True, False, True, False)
    assert again.release_id == first.release_id and again.adaptations == partial.adaptations == ()
    assert partial.release_id == live.release_id
    purposes = [store.ledger.adaptation(made.adaptations[0]).purpose for made in (first, live)]
    assert purposes == [Purpose.PRESTAGE, Purpose.ADAPT]
    assert store.events() == ["release.config-published", "release.superseded", "release.weights-live"]
    seen = store.watch.seen(HubKind.HUGGING_FACE, None, "org/model")
    assert seen is not None and (seen.revision, seen.stage) == ("r2", ReleaseStage.WEIGHTS)
    assert store.ledger.release(live.release_id) == release("r2", ReleaseStage.WEIGHTS)


def test_a_readme_commit_requests_nothing(store: Store) -> None:
    store.watch.record_release(release("r1"), ["cpu"])
    readme = store.watch.record_release(release("r2", readme="news"), ["cpu"])
    assert readme.new and readme.adaptations == ()
    assert store.events() == ["release.weights-live"]


def test_a_listing_cut_short_takes_nothing_back(store: Store) -> None:
    store.watch.record_release(release("r1"), ["cpu"])
    store.watch.record_release(release("r1", ReleaseStage.CONFIG), ["cpu"])
    seen = store.watch.seen(HubKind.HUGGING_FACE, None, "org/model")
    assert seen is not None and seen.stage is ReleaseStage.WEIGHTS


def test_two_watchers_at_once(store: Store) -> None:
    with ThreadPoolExecutor(4) as pool:
        recorded = list(pool.map(lambda _: store.watch.record_release(release(), ["cpu", "h100"]), range(8)))
    assert sorted(made.new for made in recorded) == [False] * 7 + [True]
    assert sum(len(made.adaptations) for made in recorded) == 2
    assert len(store.catalog.adaptations()) == 2
    assert store.events() == ["release.weights-live"]


def test_the_same_weights_elsewhere_are_the_same_model(store: Store) -> None:
    store.watch.record_release(release(), ["cpu"])
    mirror = store.watch.record_release(release(repo_id="mirror/copy"), ["cpu"])
    assert mirror.adaptations == ()
    assert store.catalog.model_names("mirror/copy") == ("org/model", "mirror/copy")
    with pytest.raises(NotFoundError):
        store.catalog.model_names("nobody/nothing")


def test_two_folders_of_one_name_are_two_models(store: Store) -> None:
    for path, weights in (("/a/model", "w1"), ("/b/model", "w2")):
        store.watch.record_release(release(repo_id=path, weights=weights, hub=HubKind.DIRECTORY), ["cpu"])
    assert {found.model for found in store.catalog.adaptations()} == {"model", "/b/model"}


def test_sources(store: Store) -> None:
    first = store.watch.add_source(HubKind.HUGGING_FACE, "https://hub", Rule(author="org", platforms=("cpu",)), None)
    assert store.watch.add_source(HubKind.HUGGING_FACE, "https://hub", Rule(author="org", platforms=("cpu",)), None) == first
    second = store.watch.add_source(HubKind.DIRECTORY, "/models", Rule(), None)
    store.watch.polled(first.id, "the hub is down")
    assert [source.id for source in store.watch.sources()] == [first.id, second.id]
    assert store.watch.sources()[0].last_error == "the hub is down"
    store.watch.remove_source(first.id)
    with pytest.raises(NotFoundError):
        store.watch.remove_source(first.id)


def test_requests_are_unique(store: Store) -> None:
    recorded = store.watch.record_release(release(), [])
    with ThreadPoolExecutor(4) as pool:
        made = set(pool.map(lambda _: store.catalog.request(recorded.release_id, "cpu", Purpose.ADAPT).id, range(8)))
    assert len(made) == 1


def test_concurrent_claims_have_one_winner(store: Store) -> None:
    (made,) = store.watch.record_release(release(), ["cpu"]).adaptations

    def claim(number: int) -> str:
        try:
            return store.ledger.claim(made, 1, f"run {number}").claimant
        except StaleAttemptError:
            return "refused"

    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(claim, range(6)))
    assert outcomes.count("refused") == 5
    winner = next(outcome for outcome in outcomes if outcome != "refused")
    assert store.ledger.claim(made, 1, winner) == Lease(made, 1, winner)
    assert store.events().count("adaptation.started") == 1


def test_attempts_and_orphans(store: Store) -> None:
    (made,) = store.watch.record_release(release(), ["cpu"]).adaptations
    assert [found.attempt for found in store.catalog.startable(60, 2)] == [1]
    assert [found.attempt for found in store.catalog.startable(60, 2)] == [1]
    with pytest.raises(StaleAttemptError):
        store.ledger.claim(made, 2, "run")
    first = store.ledger.claim(made, 1, "run")
    assert store.catalog.startable(60, 2) == ()
    store.clock.forward(50)
    store.ledger.heartbeat(first, "inspect")
    store.clock.forward(50)
    assert store.catalog.startable(60, 2) == ()
    store.clock.forward(11)
    (orphan,) = store.catalog.startable(60, 2)
    assert (orphan.attempt, orphan.state) == (2, AdaptationState.REQUESTED)
    with pytest.raises(StaleAttemptError):
        store.ledger.log(first, "I still live")
    second = store.ledger.claim(made, 2, "other run")
    for write in (
        lambda: store.ledger.heartbeat(first, None),
        lambda: store.ledger.put_check(check(), first),
        lambda: store.ledger.put_artifact(b"x", media_type="text/plain", name="x", lease=first),
        lambda: store.catalog.finish(first, AdaptationState.DONE, None, None),
        lambda: store.ledger.claim(made, 1, "run"),
    ):
        with pytest.raises(StaleAttemptError, match="attempt 2 of other run"):
            write()
    store.ledger.heartbeat(second, "verify")
    store.clock.forward(61)
    assert store.catalog.startable(60, 2) == ()
    failed = store.ledger.adaptation(made)
    assert failed.state is AdaptationState.FAILED
    assert "at stage verify" in str(failed.reason) and "2 attempts" in str(failed.reason)
    assert store.events()[-1] == "adaptation.failed"
    assert store.catalog.retry(made).state is AdaptationState.REQUESTED
    assert [found.attempt for found in store.catalog.startable(60, 2)] == [3]
    store.ledger.claim(made, 3, "third")
    store.clock.forward(61)
    assert [found.attempt for found in store.catalog.startable(60, 2)] == [4]


def test_finish_is_idempotent_and_writes_all_at_once(store: Store) -> None:
    lease = store.adapt()
    store.ledger.put_check(check(), lease)
    store.clock.forward(30)
    found = entry(release().content_id)
    done = store.catalog.finish(lease, AdaptationState.DONE, None, found)
    assert store.catalog.finish(lease, AdaptationState.DONE, None, found) == done
    assert done.state is AdaptationState.DONE and done.finished_at == store.clock.now()
    assert store.events() == ["release.weights-live", "adaptation.started", "entry.changed", "adaptation.completed"]
    (row,) = store.list.current()
    assert (row["correctness"], row["plan"], row["devices"], row["checks_passed"]) == ("verified", "tp3", 3, 1)
    assert row["time_to_verified_s"] == 30.0
    with pytest.raises(StaleAttemptError):
        store.ledger.log(lease, "late")
    with pytest.raises(BadInputError):
        store.catalog.finish(lease, AdaptationState.RUNNING, None, None)


def test_an_entry_is_appended_only_when_it_says_something_new(store: Store) -> None:
    lease = store.adapt()
    content = release().content_id
    store.catalog.finish(lease, AdaptationState.DONE, None, entry(content))
    for attempt, correctness in ((2, Correctness.VERIFIED), (3, Correctness.FAILING)):
        store.clock.forward(100)
        store.catalog.retry(lease.adaptation_id)
        again = store.ledger.claim(lease.adaptation_id, attempt, "run")
        store.catalog.finish(again, AdaptationState.DONE, None, entry(content, correctness))
    history = store.list.history("org/model")
    assert [row["correctness"] for row in history] == ["failing", "verified"]
    (row,) = store.list.current()
    assert row["correctness"] == "failing"
    assert store.events().count("entry.changed") == 2


def test_an_entry_for_something_else_is_refused(store: Store) -> None:
    lease = store.adapt()
    with pytest.raises(BadInputError, match="does not belong"):
        store.catalog.finish(lease, AdaptationState.DONE, None, entry("x", platform="h100"))
    assert store.ledger.adaptation(lease.adaptation_id).state is AdaptationState.RUNNING
    assert store.list.current() == ()


def test_weights_supersede_the_prediction(store: Store) -> None:
    configuration = release("r1", ReleaseStage.CONFIG)
    predicted = store.adapt(configuration)
    forecast = entry(configuration.content_id, Correctness.UNKNOWN, lifecycle=Lifecycle.STAGED)
    store.catalog.finish(predicted, AdaptationState.DONE, None, forecast)
    assert [row["lifecycle"] for row in store.list.current()] == ["staged"]
    assert "prestage.completed" in store.events()
    store.clock.forward(10)
    live = store.adapt(release("r2"))
    assert [row["lifecycle"] for row in store.list.current()] == ["staged"]
    store.catalog.finish(live, AdaptationState.DONE, None, entry(release("r2").content_id))
    assert [row["lifecycle"] for row in store.list.current()] == ["done"]
    assert len(store.list.history("org/model")) == 2
    clock = store.catalog.clock_of(live.adaptation_id)
    assert clock.config_seen_at is not None and clock.detected_at is not None
    assert (clock.detected_at - clock.config_seen_at).total_seconds() == 10
    assert clock.staged_at == clock.config_seen_at


def test_new_weights_make_old_entries_stale(store: Store) -> None:
    lease = store.adapt()
    store.catalog.finish(lease, AdaptationState.DONE, None, entry(release().content_id))
    store.watch.record_release(release("r2", weights="w2"), ["cpu"])
    (row,) = store.list.current()
    assert row["freshness"] == "stale" and "superseded by revision r2" in str(row["reason"])
    assert {"entry.stale", "release.superseded"} <= set(store.events())


def test_an_entry_finished_after_its_release_was_superseded_is_stale(store: Store) -> None:
    lease = store.adapt()
    store.watch.record_release(release("r2", weights="w2"), [])
    store.catalog.finish(lease, AdaptationState.DONE, None, entry(release().content_id))
    (row,) = store.list.current()
    assert (row["correctness"], row["freshness"]) == ("verified", "stale")


def test_what_an_adaptation_was_blocked_with_gives_way(store: Store) -> None:
    lease = store.adapt()
    content = release().content_id
    blocked = entry(content, Correctness.UNKNOWN, lifecycle=Lifecycle.BLOCKED, dtype="unknown")
    store.catalog.finish(lease, AdaptationState.BLOCKED, "a pickle", blocked)
    assert [row["lifecycle"] for row in store.list.current()] == ["blocked"]
    again = store.ledger.claim(store.catalog.retry(lease.adaptation_id).id, 2, "run")
    store.catalog.finish(again, AdaptationState.DONE, None, entry(content))
    assert [(row["lifecycle"], row["dtype"]) for row in store.list.current()] == [("done", "bfloat16")]


def test_queries_and_roll_up(store: Store) -> None:
    content = release().content_id
    for platform, correctness in (("cpu", Correctness.FAILING), ("h100", Correctness.VERIFIED)):
        lease = store.adapt(platforms=(platform,))
        found = entry(content, correctness, platform=platform, checks=(check(Verdict.FAIL), check(name="other")))
        store.catalog.finish(lease, AdaptationState.DONE, None, found)
    lease = store.ledger.claim(store.catalog.retry(lease.adaptation_id).id, 2, "run")
    store.catalog.finish(
        lease, AdaptationState.DONE, None, entry(content, Correctness.FAILING, platform="h100", dtype="float16")
    )
    assert [row["platform"] for row in store.list.current()] == ["cpu", "h100", "h100"]
    assert [row["platform"] for row in store.list.current("correctness = 'verified' and checks_failed >= 1")] == ["h100"]
    assert store.list.current('model ~ "other/*"') == ()
    assert len(store.list.current(limit=1)) == 1
    with pytest.raises(BadInputError):
        store.list.current("colour = 'red'")
    rollup = {row["platform"]: row for row in store.list.rollup()}
    assert (rollup["h100"]["correctness"], rollup["h100"]["entries"], rollup["h100"]["failing"]) == ("verified", 2, 1)
    assert rollup["cpu"]["correctness"] == "failing"
    row = store.list.current("platform = 'cpu'")[0]
    whole = store.list.entry(str(row["entry_id"])[:12])
    assert whole.key.platform == "cpu" and whole.checks == (check(Verdict.FAIL), check(name="other"))
    for wrong in ("", "zz", "'; --"):
        with pytest.raises(NotFoundError):
            store.list.entry(wrong)


def test_cancel_and_retry(store: Store) -> None:
    lease = store.adapt()
    with pytest.raises(BadInputError, match="is running"):
        store.catalog.retry(lease.adaptation_id)
    assert store.catalog.cancel(lease.adaptation_id).state is AdaptationState.CANCELLED
    assert store.catalog.cancel(lease.adaptation_id).state is AdaptationState.CANCELLED
    with pytest.raises(StaleAttemptError):
        store.ledger.heartbeat(lease, None)
    with pytest.raises(StaleAttemptError):
        store.catalog.finish(lease, AdaptationState.DONE, None, None)
    assert store.catalog.startable(60, 5) == ()
    assert store.catalog.retry(lease.adaptation_id).state is AdaptationState.REQUESTED
    for method in (store.catalog.cancel, store.catalog.retry, store.catalog.clock_of, store.ledger.adaptation):
        with pytest.raises(NotFoundError):
            method("nothing")


def test_text_that_postgres_cannot_hold(store: Store) -> None:
    lease = store.adapt()
    store.ledger.log(lease, "nul \x00 and lone \ud800 surrogate")
    (line,) = store.catalog.log_lines(lease.adaptation_id)
    assert "nul \ufffd and lone" in line[2]
    assert store.catalog.log_lines(lease.adaptation_id, after=line[0]) == ()
    store.catalog.finish(lease, AdaptationState.BLOCKED, "a\x00b", None)
    assert store.ledger.adaptation(lease.adaptation_id).reason == "a\ufffdb"


def test_a_waiver_is_kept_and_ended_once(store: Store) -> None:
    until = store.clock.now() + timedelta(days=1)
    made = store.catalog.waive("org/*", "*", "layers.three_way", "known upstream", "Ada", until)
    assert store.catalog.waivers() == (made,) and made.until == until and made.ended_at is None
    ended = store.catalog.end_waiver(made.id)
    store.clock.forward(60)
    assert store.catalog.end_waiver(made.id) == ended and ended.ended_at is not None
    with pytest.raises(NotFoundError, match="no waiver"):
        store.catalog.end_waiver("absent")
    for reason, owner, moment in (("", "Ada", until), ("x", " ", until), ("x", "Ada", store.clock.now())):
        with pytest.raises(BadInputError):
            store.catalog.waive("org/*", "*", "layers.three_way", reason, owner, moment)
    assert len(store.catalog.waivers()) == 1


def test_a_waived_entry_is_stale_once_the_waiver_has_expired(store: Store) -> None:
    """The view's clock is the database's: a waiver of the past and one of the future."""
    now = datetime.now(UTC)
    for platform, until in (("cpu", now - timedelta(days=1)), ("sim-npu", now + timedelta(days=1))):
        lease = store.adapt(release(platform), (platform,))
        waiver = Waiver("w", "org/*", "*", "generation", "known", "Ada", until, now - timedelta(days=2))
        content_id = store.ledger.adaptation(lease.adaptation_id).content_id
        plain = entry(content_id, Correctness.FUNCTIONAL, platform=platform)
        store.catalog.finish(lease, AdaptationState.DONE, None, replace(plain, waivers=(waiver,), waived_until=until))
    rows = {row["platform"]: row for row in store.list.current()}
    assert {name: row["freshness"] for name, row in rows.items()} == {"cpu": "stale", "sim-npu": "current"}
    assert all(row["waivers"] == 1 for row in rows.values())
    assert rows["sim-npu"]["waived_until"] is not None


def test_another_policy_starts_anew(store: Store) -> None:
    lease = store.adapt()
    policy = PrecisionPolicy("int8", (Promotion("model.layers.0.mlp.gate_proj", 0.5),))
    with pytest.raises(BadInputError, match="is running"):
        store.catalog.follow(lease.adaptation_id, policy)
    store.ledger.put_check(check(name="model.perplexity"), lease)
    store.ledger.put_result(result_key("structure", 1, "x"), b"{}", lease)
    store.catalog.finish(lease, AdaptationState.DONE, None, None)
    assert store.catalog.follow(lease.adaptation_id, None).state is AdaptationState.DONE
    followed = store.catalog.follow(lease.adaptation_id, policy)
    assert (followed.state, followed.policy) == (AdaptationState.REQUESTED, policy)
    assert not store.ledger.checks(lease.adaptation_id) and not store.ledger.linked_results(lease.adaptation_id)
    assert store.ledger.claim(lease.adaptation_id, 2, "again") and store.ledger.adaptation(lease.adaptation_id).policy == policy
    assert [one.attempt for one in store.catalog.adaptations() if one.policy == policy] == [2]
