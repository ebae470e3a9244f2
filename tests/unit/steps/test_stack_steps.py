"""Which stack an adaptation runs in: asked once, kept with it, and obeyed by tracer, runner, entry and bundle."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from checkpoints import SMOLLM2
from dayzero.domain.platforms import Stack
from dayzero.domain.runs import RunEnd
from dayzero.domain.stacks import INSTALLED, Pin, StackRecipe, over
from dayzero.errors import BlockedError, DayzeroError, UnavailableError
from dayzero.steps import prestaging
from dayzero.steps.concluding import found_by, key_of
from dayzero.steps.prestaging import NOT_TRACED, require_reference
from dayzero.steps.stacks import STACK, runner_of
from fakes_bench import STACK as WORKERS_STACK
from fakes_bench import FakeRunner, FakeTracer, Made, ended, make_bench

MARTIAN = {**SMOLLM2, "model_type": "martian", "architectures": ["MartianForCausalLM"]}
NEWER = StackRecipe("newer", (Pin("torch", "2.14"), Pin("transformers", "6.0")))
UNKNOWN = BlockedError("model type martian is unknown to transformers 5.24.")


@dataclass
class FakeStacks:
    """What is installed knows llama; the newer one knows what `newer` says, or raises it."""

    newer: frozenset[str] | DayzeroError = frozenset({"llama", "martian"})
    order: tuple[StackRecipe, ...] = (INSTALLED, NEWER)
    tracers: FakeTracer = field(default_factory=FakeTracer)
    runners: FakeRunner = field(default_factory=lambda: FakeRunner(ended(RunEnd.CRASHED)))
    unbuilt: DayzeroError | None = None
    asked: int = 0

    def recipes(self, platform: str) -> Sequence[StackRecipe]:
        return self.order

    def library(self, recipe: StackRecipe) -> str:
        return f"transformers {recipe.library_version or '5.24'}"

    def model_types(self, recipe: StackRecipe) -> frozenset[str]:
        self.asked += 1
        if recipe == INSTALLED:
            return frozenset({"llama"})
        if isinstance(self.newer, DayzeroError):
            raise self.newer
        return self.newer

    def tracer(self, recipe: StackRecipe) -> FakeTracer:
        if self.unbuilt:
            raise self.unbuilt
        return self.tracers

    def runner(self, recipe: StackRecipe) -> FakeRunner:
        return self.runners


def made_with(folder: Path, stacks: FakeStacks, config: dict[str, object] = MARTIAN) -> Made:
    made = make_bench(folder, config, tracer=FakeTracer(UNKNOWN))
    made.bench = replace(made.bench, stacks=stacks)
    return made


def test_a_type_that_only_the_newer_knows_is_traced_run_and_recorded_there(tmp_path: Path) -> None:
    stacks = FakeStacks()
    made = made_with(tmp_path, stacks)
    prestaging.inventory_step(made.bench, made.lease)
    require_reference(made.bench, made.lease)
    assert (stacks.tracers.traced, made.tracer.traced) == (1, 0)
    assert runner_of(made.bench, made.lease) is stacks.runners
    found = found_by(made.bench, made.lease)
    assert found.recipe == NEWER
    key = key_of(made.ledger.adaptation(made.lease.adaptation_id), found, WORKERS_STACK)
    assert key.stack_fingerprint == over(WORKERS_STACK, NEWER).fingerprint != WORKERS_STACK.fingerprint


def test_what_is_installed_goes_first(tmp_path: Path) -> None:
    stacks = FakeStacks()
    made = make_bench(tmp_path, SMOLLM2)
    made.bench = replace(made.bench, stacks=stacks)
    prestaging.inventory_step(made.bench, made.lease)
    assert (made.tracer.traced, stacks.tracers.traced, stacks.asked) == (1, 0, 1)
    assert runner_of(made.bench, made.lease) is made.runner


def test_what_none_knows_is_blocked_with_the_versions_that_were_tried(tmp_path: Path) -> None:
    made = made_with(tmp_path, FakeStacks(frozenset({"llama"})))
    with pytest.raises(BlockedError, match="no reference") as refused:
        require_reference(made.bench, made.lease)
    assert all(said in str(refused.value) for said in ("transformers 5.24", "transformers 6.0", "does not know martian"))


def test_what_is_not_among_the_stacks_is_not_asked(tmp_path: Path) -> None:
    stacks = FakeStacks(frozenset({"martian"}), order=(NEWER,), tracers=FakeTracer(BlockedError("llama is unknown there.")))
    made = make_bench(tmp_path, SMOLLM2)
    made.bench = replace(made.bench, stacks=stacks)
    with pytest.raises(BlockedError, match=r"llama is unknown there\..* Tried: newer .transformers 6\.0. does not know llama"):
        require_reference(made.bench, made.lease)
    assert (made.tracer.traced, stacks.tracers.traced) == (0, 1)


def test_the_choice_is_found_again_without_asking(tmp_path: Path) -> None:
    stacks = FakeStacks()
    made = made_with(tmp_path, stacks)
    prestaging.inventory(made.bench, made.lease)
    asked = stacks.asked
    prestaging.inventory(made.bench, made.lease)
    assert stacks.asked == asked
    assert [one.key.stage for one in made.ledger.linked_results(made.lease.adaptation_id)].count(STACK) == 1


def test_a_stack_that_could_not_be_asked_is_asked_again_by_the_next_attempt(tmp_path: Path) -> None:
    stacks = FakeStacks(UnavailableError("the index does not answer."))
    made = made_with(tmp_path, stacks)
    with pytest.raises(BlockedError, match="cannot be asked: the index does not answer"):
        require_reference(made.bench, made.lease)
    stacks.newer = frozenset({"martian"})
    again = replace(made.lease, attempt=2)
    made.ledger._adaptation = replace(made.ledger._adaptation, attempt=2)
    require_reference(made.bench, again)
    assert stacks.tracers.traced == 1
    assert found_by(made.bench, again).recipe == NEWER


def test_a_stack_that_cannot_be_installed_is_no_refusal_that_lasts(tmp_path: Path) -> None:
    stacks = FakeStacks(unbuilt=UnavailableError("the index does not answer."))
    made = made_with(tmp_path, stacks)
    found = prestaging.inventory(made.bench, made.lease).noun
    assert NOT_TRACED in [finding.code for finding in found.findings]
    assert found.traced_with is None


def test_a_worker_without_the_lock_takes_it_from_the_ledger(tmp_path: Path) -> None:
    made = made_with(tmp_path, FakeStacks())
    prestaging.inventory(made.bench, made.lease)

    class Workers(FakeStacks):
        def recipes(self, platform: str) -> Sequence[StackRecipe]:
            return (INSTALLED,)

    workers = Workers()
    bench = replace(made.bench, stacks=workers, stacked={})
    assert runner_of(bench, made.lease) is workers.runners
    require_reference(bench, made.lease)
    assert (workers.tracers.traced, made.tracer.traced) == (0, 0), "what the control plane traced is found again"


def test_the_workers_own_stack_is_said_as_it_is() -> None:
    assert over(WORKERS_STACK, NEWER) == Stack("cpu", {"torch": "2.14", "stack": NEWER.fingerprint})
