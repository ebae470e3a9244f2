"""After a change, a re-run computes again what depends on it and finds the rest: shown by the results that PostgreSQL holds."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from sqlalchemy import Engine

from dayzero.adapters.store.ageing import SqlAgeingBook
from dayzero.adapters.store.artifacts import FolderArtifacts
from dayzero.adapters.store.catalog import SqlCatalog
from dayzero.adapters.store.compatibility import SqlCompatibilityList
from dayzero.adapters.store.ledger import SqlLedger
from dayzero.adapters.store.watch_book import SqlWatchBook
from dayzero.app import steps_for, verification_steps
from dayzero.codec import dump
from dayzero.domain.adaptation import Lease, Purpose
from dayzero.domain.observations import GenerationObserved
from dayzero.domain.operators import OperatorManifest, OperatorSupport, SupportKind
from dayzero.domain.platforms import Figure, FigureStatus, Stack
from dayzero.domain.runs import Observation, RunEnd, RunLimits, RunOutcome, RunRequest
from dayzero.domain.verdict import Grade
from dayzero.steps.ageing import let_go, sweep
from dayzero.steps.concluding import conclude
from dayzero.steps.contract import Bench, Place
from fakes_bench import PLATFORM, Made, make_bench

pytestmark = pytest.mark.postgres
SPOKEN = GenerationObserved(
    "Once", "upon a time", "tokenizer.json", 1, 3, True, 0, "bfloat16", "eager", 1.0, 0.1, 0.1, 10.0, 1000, None, None, None,
    None, None, "upon a time", "sdpa",
)  # fmt: skip
OLD, NEW = Stack(PLATFORM, {"torch": "2.13"}), Stack(PLATFORM, {"torch": "2.14"})


@dataclass
class Runner:
    """Runs complete, in the stack that is installed now; `ran` keeps which were really run."""

    installed: Stack = OLD
    ran: tuple[str, ...] = ()

    def stack(self) -> Stack:
        return self.installed

    def run(self, request: RunRequest, limits: RunLimits) -> RunOutcome:
        self.ran += (request.observation.value,)
        document = dump(SPOKEN) if request.observation is Observation.GENERATION else b"{}"
        return RunOutcome(RunEnd.COMPLETED, document, "", "", 1.0, None)


class Scene:
    """One model on one platform, its pipeline over a real database."""

    def __init__(self, engine: Engine, made: Made, folder: Path) -> None:
        self.made, self.runner = made, Runner()
        clock = made.bench.clock
        self.ledger = SqlLedger(engine, clock, FolderArtifacts(folder / "evidence"))
        self.catalog = SqlCatalog(engine, clock)
        self.book = SqlAgeingBook(engine, clock)
        self.list = SqlCompatibilityList(engine, clock)
        self.bench: Bench = replace(made.bench, ledger=self.ledger, runner=self.runner)
        self.told(OLD)
        recorded = SqlWatchBook(engine, clock).record_release(made.release, [PLATFORM])
        self.adaptation_id = recorded.adaptations[0]

    def told(self, stack: Stack) -> None:
        support = OperatorSupport("aten.mm.default", SupportKind.NATIVE, Grade.DECLARED)
        self.ledger.put_manifest(OperatorManifest(PLATFORM, "torch", stack.components["torch"], (support,)), stack)
        self.runner.installed = stack

    def run(self, attempt: int) -> tuple[set[str], set[str]]:
        """The whole pipeline; the stages whose results that attempt computed, and those that it found."""
        lease = self.ledger.claim(self.adaptation_id, attempt, "the test")
        self.runner.ran = ()
        for step in steps_for(Purpose.ADAPT, Place.CONTROL):
            step.run(self.bench, lease)
        for step in verification_steps(()):
            if step.place is Place.PLATFORM and step.name != "bridge":
                step.run(self.bench, lease)
        conclude(self.bench, self.catalog, lease)
        return self.results(lease)

    def results(self, lease: Lease) -> tuple[set[str], set[str]]:
        used = [one for one in self.ledger.linked_results(self.adaptation_id) if one.last_attempt == lease.attempt]
        computed = {one.key.stage for one in used if one.computed_in(lease.attempt)}
        return computed, {one.key.stage for one in used} - computed

    def again(self) -> None:
        """What the loop does: mark what is stale, and start what waits."""
        (marked,) = sweep(self.book, self.catalog, self.bench.profiles, self.bench.clock.now())
        assert marked.entry.adaptation_id == self.adaptation_id
        assert let_go(self.book, lambda _: True, 1) == (self.adaptation_id,)

    def freshness(self) -> list[object]:
        return [row["freshness"] for row in self.list.current()]


@pytest.fixture
def scene(engine: Engine, tmp_path: Path) -> Scene:
    return Scene(engine, make_bench(tmp_path), tmp_path)


OF_THE_MODEL = {"configuration", "structure", "inventory", "headers", "structure.weights", "plan", "plan.weights", "shards"}
"""Stages that read nothing of what is installed on the platform."""


def test_a_stack_upgrade_runs_the_checks_again_and_nothing_else(scene: Scene) -> None:
    first, found = scene.run(1)
    assert found == set()
    assert first >= OF_THE_MODEL
    observed = scene.runner.ran
    assert len(observed) >= 4
    scene.told(NEW)
    scene.again()
    computed, found = scene.run(2)
    assert scene.runner.ran == observed, "every observation depends on the stack"
    assert {stage for stage in computed if stage.startswith("observe.")} == {f"observe.{name}" for name in observed}
    assert computed & OF_THE_MODEL == set()
    assert found >= OF_THE_MODEL
    rest = {stage for stage in computed if not stage.startswith(("observe.", "rehearse.", "culprits."))}
    assert rest == {"coverage"}, "what the platform offers was told anew with the stack"
    assert scene.freshness() == ["current"]
    assert len(scene.list.history("acme/tiny")) == 3, "as it was, stale, and anew"


def test_back_to_the_former_stack_nothing_is_run_at_all(scene: Scene) -> None:
    scene.run(1)
    scene.told(NEW)
    scene.again()
    scene.run(2)
    scene.told(OLD)
    scene.again()
    computed, found = scene.run(3)
    assert scene.runner.ran == () and computed == set()
    assert {"coverage", *OF_THE_MODEL} <= found
    (row,) = scene.list.current()
    assert (row["freshness"], row["stack_fingerprint"]) == ("current", OLD.fingerprint)


def test_other_figures_of_the_platform_make_other_plans_and_run_no_check(scene: Scene) -> None:
    scene.run(1)
    figure = Figure(64 * 2.0**30, "bytes", "a page", FigureStatus.PUBLISHED)
    profile = replace(scene.bench.profiles[PLATFORM], memory_bytes=figure)
    scene.bench = replace(scene.bench, profiles={PLATFORM: profile})
    scene.again()
    computed, _ = scene.run(2)
    assert scene.runner.ran == ()
    assert computed <= {"plan", "plan.weights", "shards"} and computed >= {"plan", "plan.weights"}
