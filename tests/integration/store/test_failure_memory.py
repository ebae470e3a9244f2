"""The memory of failures, on a real PostgreSQL: written with the entry, kept across models, edited by people."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine

from dayzero.adapters.store.embargoes import SqlEmbargoes
from dayzero.adapters.store.failures import SqlFailureMemory
from dayzero.domain.access import ANYONE
from dayzero.domain.adaptation import AdaptationState
from dayzero.domain.entry import Correctness
from dayzero.domain.verdict import Culprit
from dayzero.errors import BadInputError, NotFoundError
from dayzero.stages.failures.finding import failures_of
from store_nouns import entry, release
from store_scene import Store

pytestmark = pytest.mark.postgres


class Attempts(Store):
    """Attempts that end with failures."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        super().__init__(engine, folder)
        self.memory = SqlFailureMemory(engine, self.clock)
        self.embargoes = SqlEmbargoes(engine, self.clock)

    def ended(self, model: str, operator: str | None = None, gaps: tuple[str, ...] = (), attempt: int = 1) -> None:
        what = release(repo_id=model, weights=model)
        recorded = self.watch.record_release(what, ["cpu"])
        adaptation = recorded.adaptations[0] if recorded.adaptations else self.catalog.adaptations(model=model)[0].id
        lease = self.ledger.claim(adaptation, attempt, "run")
        culprits = (Culprit(3, "layers.3", operator, 0.5, 0.01),) if operator else ()
        made = replace(entry(what.content_id, Correctness.FAILING, model=model), culprits=culprits, gaps=gaps)
        made = replace(made, failures=failures_of(made), reason=f"attempt {attempt}")
        self.catalog.finish(lease, AdaptationState.DONE, None, made)


@pytest.fixture
def store(engine: Engine, tmp_path: Path) -> Attempts:
    return Attempts(engine, tmp_path / "artifacts")


def test_models_that_met_the_same_are_one_failure_until_they_no_longer_do(store: Attempts) -> None:
    store.ended("org/a", "aten.softmax.int")
    store.clock.forward(60)
    store.ended("org/b", "aten.softmax.int", ("op.lacking",))
    wrong, lacking = store.memory.known("cpu")
    assert (wrong.operator, wrong.models, wrong.stacks) == ("aten.softmax.int", ("org/a", "org/b"), ("f" * 64,))
    assert (wrong.last_seen_at - wrong.first_seen_at).total_seconds() == 60
    assert (lacking.operator, lacking.models) == ("op.lacking", ("org/b",))
    assert store.memory.known("h100") == ()
    assert store.memory.known(operator="op.lacking") == (lacking,)
    store.catalog.retry(store.catalog.adaptations(model="org/a")[0].id)
    store.ended("org/a", attempt=2)
    (again,) = store.memory.known(operator="aten.softmax.int")
    assert (again.models, again.former) == (("org/b",), ("org/a",))


def test_people_say_why_and_what_helps_and_a_new_hit_leaves_it(store: Attempts) -> None:
    store.ended("org/a", "aten.softmax.int")
    (met,) = store.memory.known()
    told = store.memory.explain(met.signature, {"cause": "rounds twice", "owner": "kernels", "ticket": "http://t/1"})
    assert (told.cause, told.workaround, told.owner, told.ticket) == ("rounds twice", None, "kernels", "http://t/1")
    store.ended("org/b", "aten.softmax.int")
    (again,) = store.memory.known()
    assert (again.cause, again.models) == ("rounds twice", ("org/a", "org/b"))
    assert store.memory.explain(met.signature, {"cause": " "}).cause is None
    with pytest.raises(NotFoundError):
        store.memory.explain("nothing", {"cause": "x"})
    with pytest.raises(BadInputError):
        store.memory.explain(met.signature, {"symptom": "x"})


def test_what_only_hidden_models_met_nobody_else_knows(store: Attempts) -> None:
    store.ended("org/secret", "aten.secret")
    store.ended("org/secret2", "aten.softmax.int")
    store.ended("org/open", "aten.softmax.int")
    until = store.clock.now() + timedelta(days=1)
    for model in ("org/secret", "org/secret2"):
        store.embargoes.place(model, None, until, (), "not yet")
    (seen,) = store.memory.seen_by(ANYONE).known()
    assert (seen.operator, seen.models) == ("aten.softmax.int", ("org/open",))
    assert len(store.memory.known()) == 2
    with pytest.raises(NotFoundError):
        hidden = next(one for one in store.memory.known() if one.operator == "aten.secret")
        store.memory.seen_by(ANYONE).explain(hidden.signature, {"cause": "x"})
