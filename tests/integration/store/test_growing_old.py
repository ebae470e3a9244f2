"""Entries that grow old, on a real PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from dayzero.adapters.store.ageing import SqlAgeingBook
from dayzero.adapters.store.subscribers import SqlSubscribers
from dayzero.adapters.store.workforce import SqlWorkforce
from dayzero.domain.adaptation import AdaptationState, Lease, Purpose
from dayzero.domain.ageing import basis_of
from dayzero.domain.entry import CompatibilityEntry, Correctness, Lifecycle
from dayzero.domain.operators import OperatorManifest
from dayzero.domain.platforms import Figure, FigureStatus, PlatformProfile, Stack
from dayzero.domain.stacks import INSTALLED, Pin, StackRecipe
from dayzero.domain.subscriptions import Channel
from dayzero.domain.verdict import Verdict
from dayzero.domain.waivers import Waiver
from dayzero.stages.entries.required import METHOD
from dayzero.steps.ageing import let_go, queue, sweep
from store_nouns import DAY_ZERO, OpenVault, check, entry, release
from store_scene import Store

pytestmark = pytest.mark.postgres

OLD = {"torch": "2.9.0", "transformers": "5.0", "python": "3.11"}
NEW = {**OLD, "torch": "2.10.0"}
PINNED = StackRecipe("newer", (Pin("torch", "2.8.0"), Pin("transformers", "6.0")))


def profile(slug: str, memory: float = 64e9) -> PlatformProfile:
    return PlatformProfile(slug, slug, slug, Figure(memory, "bytes", "a page", FigureStatus.PUBLISHED))


class Years(Store):
    """Entries on two platforms, whose stacks and figures change."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        super().__init__(engine, folder)
        self.book = SqlAgeingBook(engine, self.clock)
        self.subscribers = SqlSubscribers(engine, self.clock, OpenVault())
        self.workforce = SqlWorkforce(engine, self.clock)
        self.profiles = {slug: profile(slug) for slug in ("cpu", "h100")}

    def tell(self, platform: str = "cpu", components: dict[str, str] | None = None) -> Stack:
        stack = Stack(platform, components or OLD)
        self.ledger.put_manifest(OperatorManifest(platform, "test", "1", ()), stack)
        return stack

    def adapted(
        self, model: str = "org/model", platform: str = "cpu", recipe: StackRecipe = INSTALLED, **changes: object
    ) -> tuple[Lease, CompatibilityEntry]:
        """An adaptation that is done, with an entry on what the platform has now."""
        found = release(repo_id=model, weights=model)
        recorded = self.watch.record_release(found, [platform])
        lease = self.ledger.claim(recorded.adaptations[0], 1, "run")
        self.clock.forward(60)
        return lease, self.finish(lease, model, found.content_id, platform, recipe, **changes)

    def finish(
        self, lease: Lease, model: str, content_id: str, platform: str, recipe: StackRecipe = INSTALLED, **changes: object
    ) -> CompatibilityEntry:
        told = self.ledger.manifest(platform)
        basis = basis_of(told[1] if told else None, recipe, self.profiles[platform])
        made = replace(entry(content_id, model=model, platform=platform), method=METHOD, basis=basis)
        made = replace(made, key=replace(made.key, stack_fingerprint=Stack(platform, basis.stack).fingerprint))
        made = replace(made, **changes)
        self.catalog.finish(lease, AdaptationState.DONE, None, made)
        return made

    def sweep(self) -> list[tuple[str, str, str]]:
        marked = sweep(self.book, self.catalog, self.profiles, self.clock.now())
        return sorted((one.entry.model, one.entry.platform, one.why) for one in marked)

    def current(self) -> dict[tuple[str, str], list[str]]:
        found: dict[tuple[str, str], list[str]] = {}
        for row in self.list.current():
            found.setdefault((str(row["model"]), str(row["platform"])), []).append(str(row["freshness"]))
        return found

    def events(self, kind: str) -> int:
        with self.engine.connect() as connection:
            query = text("SELECT count(*) FROM outbox WHERE kind = :kind")
            return int(connection.execute(query, {"kind": kind}).scalar_one())


@pytest.fixture
def store(engine: Engine, tmp_path: Path) -> Years:
    return Years(engine, tmp_path / "artifacts")


def test_a_stack_upgrade_makes_exactly_the_dependent_entries_stale(store: Years) -> None:
    store.tell("cpu")
    store.tell("h100")
    store.adapted("org/a")
    store.adapted("org/pinned", recipe=PINNED)
    store.adapted("org/a", "h100")
    assert store.sweep() == []
    store.tell("cpu", NEW)
    assert store.sweep() == [("org/a", "cpu", "the stack of cpu is another: torch 2.9.0 → 2.10.0")]
    assert store.sweep() == []
    freshness = {("org/a", "cpu"): ["stale"], ("org/pinned", "cpu"): ["current"], ("org/a", "h100"): ["current"]}
    assert store.current() == freshness
    assert store.events("dayzero.entry.stale") == 1
    (row,) = store.list.current('freshness = "stale"')
    assert row["reason"] == "All required checks pass. Stale: the stack of cpu is another: torch 2.9.0 → 2.10.0."


def test_a_stack_that_another_worker_still_has_keeps_its_entries(store: Years) -> None:
    old = store.tell()
    store.adapted()
    store.workforce.worker_seen("one", "cpu", old.fingerprint, 2)
    store.tell("cpu", NEW)
    assert store.sweep() == []
    store.clock.forward(2 * 24 * 3600)
    assert len(store.sweep()) == 1


def test_a_profile_names_the_figures_that_changed(store: Years) -> None:
    store.tell("cpu")
    store.tell("h100")
    store.adapted()
    store.adapted("org/b", "h100")
    store.profiles["cpu"] = replace(profile("cpu", 80e9), notes="prose")
    assert store.sweep() == [("org/model", "cpu", "the profile of cpu has other figures: memory_bytes")]
    store.profiles["h100"] = replace(profile("h100"), notes="prose", title="another")
    assert store.sweep() == []


def test_another_method_and_an_older_versions_entry_without_a_basis(store: Years) -> None:
    store.tell()
    store.adapted("org/a", method="inference-1")
    store.adapted("org/b", basis=None)
    assert store.sweep() == [("org/a", "cpu", f"it was judged by method inference-1, and {METHOD} is in force")]
    store.tell("cpu", NEW)
    # Its stack is told by the fingerprint of its key; of its profile nothing is known, and nothing is said.
    assert store.sweep() == [("org/b", "cpu", "the stack of cpu is another: torch 2.9.0 → 2.10.0")]


def test_waivers_that_expire_or_are_ended(store: Years) -> None:
    store.tell()
    day = timedelta(days=1)
    waiver = Waiver("w1", "*", "*", "layers.three_way", "known", "ada", DAY_ZERO + day, DAY_ZERO)
    store.adapted("org/a", waivers=(waiver,), waived_until=None, correctness=Correctness.FUNCTIONAL)
    early = store.catalog.waive("*", "*", "layers.three_way", "known", "bob", DAY_ZERO + 9 * day)
    store.adapted("org/b", waivers=(early,), waived_until=None, correctness=Correctness.FUNCTIONAL)
    assert store.sweep() == []
    store.catalog.end_waiver(early.id)
    assert store.sweep() == [("org/b", "cpu", "the waiver of layers.three_way by bob was ended")]
    store.clock.forward(24 * 3600)
    assert store.sweep() == [("org/a", "cpu", "the waiver of layers.three_way by ada expired on 2026-03-02 12:00 UTC")]


def test_a_new_release_asks_for_work_wherever_the_old_one_stood(store: Years) -> None:
    store.tell("cpu")
    store.tell("h100")
    store.adapted("org/a")
    again = store.watch.record_release(release("r1", repo_id="org/a", weights="org/a"), ["h100"])
    lease = store.ledger.claim(again.adaptations[0], 1, "run")
    store.finish(lease, "org/a", release(repo_id="org/a", weights="org/a").content_id, "h100")
    newer = store.watch.record_release(release("r2", repo_id="org/a", weights="other"), ["cpu"])
    asked = {store.ledger.adaptation(one).platform for one in newer.adaptations}
    assert asked == {"cpu", "h100"}
    assert set(map(tuple, store.current().values())) == {("stale",)}
    assert store.sweep() == []
    assert queue(store.book) == ()


def test_the_queue_goes_by_subscriptions_demand_and_cost_and_says_so(store: Years) -> None:
    store.tell("cpu")
    for model in ("org/plain", "org/heard", "org/asked"):
        store.adapted(model)
    store.subscribers.subscribe(Channel.APPRISE, "json://x", 'model = "org/heard" and correctness = "verified"', None)
    for _ in range(7):
        store.book.asked("org/asked", "cpu")
    store.tell("cpu", NEW)
    assert len(store.sweep()) == 3
    order = queue(store.book)
    assert [one.rerun.model for one in order] == ["org/heard", "org/asked", "org/plain"]
    assert order[0].priority.terms[0] == "1 subscriptions (+4)"
    assert order[1].priority.terms[1] == "looked up 7 times (+3.00)"
    assert "assumed: no run was timed" in order[2].priority.terms[-1]
    assert let_go(store.book, lambda _: False, 1) == ()
    (first,) = let_go(store.book, lambda _: True, 1)
    assert first == order[0].rerun.adaptation_id
    assert store.ledger.adaptation(first).state is AdaptationState.REQUESTED
    assert store.ledger.adaptation(first).reason == "run again: the stack of cpu is another: torch 2.9.0 → 2.10.0"
    assert let_go(store.book, lambda _: True, 1) == ()
    lease = store.ledger.claim(first, 2, "run")
    store.finish(lease, "org/heard", release(repo_id="org/heard", weights="org/heard").content_id, "cpu")
    assert store.current()["org/heard", "cpu"] == ["current"]
    assert len(let_go(store.book, lambda _: True, 1)) == 1
    with store.engine.connect() as connection:
        kept = connection.execute(text("SELECT score, terms FROM reruns WHERE ended_at IS NOT NULL")).one()
    assert kept[0] == pytest.approx(order[0].priority.score, rel=0.01)
    assert kept[1][0] == "1 subscriptions (+4)"


def test_a_blocked_re_run_leaves_the_stale_entry_in_the_list(store: Years) -> None:
    store.tell()
    store.adapted()
    store.tell("cpu", NEW)
    store.sweep()
    (again,) = let_go(store.book, lambda _: True, 1)
    lease = store.ledger.claim(again, 2, "run")
    content = release(repo_id="org/model", weights="org/model").content_id
    store.finish(lease, "org/model", content, "cpu", lifecycle=Lifecycle.BLOCKED, correctness=Correctness.UNKNOWN)
    assert sorted(store.current()["org/model", "cpu"]) == ["current", "stale"]


def test_what_an_earlier_attempt_showed_counts_for_no_re_run(store: Years) -> None:
    store.tell()
    recorded = store.watch.record_release(release(), ["cpu"])
    lease = store.ledger.claim(recorded.adaptations[0], 1, "run")
    store.ledger.put_check(check(Verdict.PASS), lease)
    store.clock.forward(10)
    store.finish(lease, "org/model", release().content_id, "cpu")
    first_token = store.catalog.clock_of(lease.adaptation_id).first_token_at
    store.tell("cpu", NEW)
    store.sweep()
    let_go(store.book, lambda _: True, 1)
    assert store.ledger.checks(lease.adaptation_id) == ()
    assert store.catalog.clock_of(lease.adaptation_id).first_token_at == first_token == DAY_ZERO


def test_two_markers_at_once_mark_once(store: Years) -> None:
    store.tell()
    for number in range(6):
        store.adapted(f"org/m{number}")
    store.tell("cpu", NEW)
    with ThreadPoolExecutor(4) as pool:
        marked = list(pool.map(lambda _: store.sweep(), range(4)))
    assert sum(map(len, marked)) == 6
    assert store.events("dayzero.entry.stale") == 6
    assert len(queue(store.book)) == 6
    with ThreadPoolExecutor(4) as pool:
        started = [one for many in pool.map(lambda _: let_go(store.book, lambda _: True, 6), range(4)) for one in many]
    assert sorted(started) == sorted(set(started))
    assert len(started) == 6


def test_two_writers_of_one_entry_at_once_write_one_version(store: Years) -> None:
    """A pre-stage and an adaptation of one content derive the same key: one version, and no prediction over what was shown."""
    store.tell()
    recorded = store.watch.record_release(release(), ["cpu"])
    content = release().content_id
    prestage = store.catalog.request(recorded.release_id, "cpu", Purpose.PRESTAGE)
    leases = [store.ledger.claim(recorded.adaptations[0], 1, "a"), store.ledger.claim(prestage.id, 1, "b")]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda lease: store.finish(lease, "org/model", content, "cpu"), leases))
    with store.engine.connect() as connection:
        versions = connection.execute(text("SELECT predicted FROM entries ORDER BY seq")).scalars().all()
    assert versions in ([False], [True]) or versions == [True, False]
    assert store.current() == {("org/model", "cpu"): ["current"]}


def test_a_clock_that_jumps_makes_no_version_twice_and_takes_none_back(store: Years) -> None:
    store.tell()
    waiver = Waiver("w1", "*", "*", "layers.three_way", "known", "ada", DAY_ZERO + timedelta(days=30), DAY_ZERO)
    store.adapted(waivers=(waiver,), waived_until=None, correctness=Correctness.FUNCTIONAL)
    store.clock.forward(90 * 24 * 3600)
    assert len(store.sweep()) == 1
    store.clock.forward(-120 * 24 * 3600)
    assert store.sweep() == []
    assert store.current() == {("org/model", "cpu"): ["stale"]}
    (one,) = queue(store.book)
    assert one.rerun.worth.waited_s < 0
    assert one.priority.score > 0
    (again,) = let_go(store.book, lambda _: True, 1)
    lease = store.ledger.claim(again, 2, "run")
    # The version that is recorded in the past is the newest all the same: versions go by their order, not by their time.
    content = release(repo_id="org/model", weights="org/model").content_id
    store.finish(lease, "org/model", content, "cpu", reason="Shown anew.")
    (row,) = store.list.current()
    assert (row["freshness"], row["reason"]) == ("current", "Shown anew.")
