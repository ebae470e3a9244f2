"""Tokens with scopes, the audit trail, and what embargoes hide, on a real PostgreSQL."""

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from dayzero.adapters.store.access import SqlAccess
from dayzero.adapters.store.catalog import SqlCatalog
from dayzero.adapters.store.compatibility import SqlCompatibilityList
from dayzero.adapters.store.embargoes import SqlEmbargoes
from dayzero.adapters.store.ledger import SqlLedger
from dayzero.adapters.store.watch_book import SqlWatchBook
from dayzero.domain.access import ANYONE, OPERATOR, Scope, Viewer
from dayzero.domain.adaptation import AdaptationState
from dayzero.errors import BadInputError, NotFoundError
from store_nouns import DAY_ZERO, SteppedClock, entry, release

pytestmark = pytest.mark.postgres
LATER = DAY_ZERO + timedelta(days=30)


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def listed(engine: Engine, clock: SteppedClock, tmp_path) -> SqlCompatibilityList:
    """org/open and org/secret, each on cpu and h100."""
    from dayzero.adapters.store.artifacts import FolderArtifacts

    watch, catalog = SqlWatchBook(engine, clock), SqlCatalog(engine, clock)
    ledger = SqlLedger(engine, clock, FolderArtifacts(tmp_path))
    for name in ("org/open", "org/secret"):
        published = release(repo_id=name, weights=name)
        for platform, adaptation in zip(
            ("cpu", "h100"), watch.record_release(published, ["cpu", "h100"]).adaptations, strict=True
        ):
            lease = ledger.claim(adaptation, 1, "tester")
            made = entry(published.content_id, model=name)
            key = replace(made.key, content_id=published.content_id, model=name, platform=platform)
            catalog.finish(lease, AdaptationState.DONE, "done", replace(made, key=key))
    return SqlCompatibilityList(engine, clock)


def places(listed: SqlCompatibilityList, viewer: Viewer) -> set[tuple[object, object]]:
    rows = listed.seen_by(viewer).current()
    assert {(row["model"], row["platform"]) for row in listed.seen_by(viewer).rollup()} == {
        (row["model"], row["platform"]) for row in rows
    }
    return {(row["model"], row["platform"]) for row in rows}


def test_scopes_include_one_another_and_worker_stands_alone() -> None:
    order = (Scope.READ, Scope.WRITE, Scope.ADMIN)
    for at, scope in enumerate(order):
        assert [scope.allows(wanted) for wanted in order] == [place <= at for place in range(3)]
        assert not scope.allows(Scope.WORKER) and not Scope.WORKER.allows(scope)
    assert Scope.WORKER.allows(Scope.WORKER)


def test_tokens_are_issued_checked_and_revoked(engine: Engine, clock: SteppedClock) -> None:
    access = SqlAccess(engine, clock)
    text_, made = access.issue("ci", Scope.WRITE, 60)
    assert access.check(text_) == made and made.scope is Scope.WRITE and made.platform is None
    assert access.check(text_ + "x") is None and access.check("") is None
    other, _ = access.issue("other", Scope.READ, 60)
    assert access.revoke(made.id).revoked
    assert access.check(text_) is None and access.check(other) is not None
    clock.forward(60)
    assert access.check(other) is None
    with pytest.raises(BadInputError, match="one platform"):
        access.issue("w", Scope.WORKER, 60)
    with pytest.raises(NotFoundError):
        access.revoke("nothing")


def test_the_trail_only_grows(engine: Engine, clock: SteppedClock) -> None:
    access = SqlAccess(engine, clock)
    for number in range(3):
        access.record("operator", "token.add", f"t{number}", "\x00")
    assert [one.subject for one in access.trail(2)] == ["t2", "t1"]
    for statement in ("DELETE FROM audit_trail", "UPDATE audit_trail SET who = 'x'", "TRUNCATE audit_trail"):
        with pytest.raises(DBAPIError, match="append-only"), engine.begin() as connection:
            connection.execute(text(statement))


@pytest.mark.parametrize(
    ("model", "platform", "left"),
    [
        ("org/secret", None, {("org/open", "cpu"), ("org/open", "h100")}),
        (None, "h100", {("org/open", "cpu"), ("org/secret", "cpu")}),
        ("org/secret", "h100", {("org/open", "cpu"), ("org/open", "h100"), ("org/secret", "cpu")}),
    ],
)
def test_an_embargo_hides_from_all_but_its_tokens_until_its_date(
    engine: Engine, clock: SteppedClock, listed: SqlCompatibilityList, model: str | None, platform: str | None, left: set
) -> None:
    everything = places(listed, ANYONE)
    assert len(everything) == 4
    _, named = SqlAccess(engine, clock).issue("partner", Scope.READ, 1e9)
    _, other = SqlAccess(engine, clock).issue("other", Scope.ADMIN, 1e9)
    SqlEmbargoes(engine, clock).place(model, platform, LATER, [named.id], "under agreement")
    assert places(listed, ANYONE) == places(listed, Viewer(other.id)) == left
    assert places(listed, OPERATOR) == places(listed, Viewer(named.id)) == everything
    clock.time = LATER
    assert places(listed, ANYONE) == everything


def test_what_is_hidden_is_as_if_it_were_not_there(engine: Engine, clock: SteppedClock, listed: SqlCompatibilityList) -> None:
    (row,) = listed.current('model = "org/secret" and platform = "cpu"')
    embargoes = SqlEmbargoes(engine, clock)
    embargoes.place("org/secret", None, LATER, [], "under agreement")
    seen = listed.seen_by(ANYONE)
    for ask in (lambda: seen.entry(str(row["entry_id"])), lambda: seen.history("org/secret")):
        with pytest.raises(NotFoundError) as hidden:
            ask()
        assert "embargo" not in str(hidden.value)
    assert seen.current('model ~ "*secret*"') == ()
    (made,) = embargoes.embargoes()
    embargoes.lift(made.id)
    assert len(seen.history("org/secret")) == 2


def test_several_embargoes_must_each_let_a_token_in(engine: Engine, clock: SteppedClock, listed: SqlCompatibilityList) -> None:
    _, one = SqlAccess(engine, clock).issue("one", Scope.READ, 1e9)
    embargoes = SqlEmbargoes(engine, clock)
    embargoes.place("org/secret", None, LATER, [one.id], "model")
    embargoes.place(None, "h100", LATER, [], "platform")
    assert places(listed, Viewer(one.id)) == {("org/open", "cpu"), ("org/secret", "cpu")}


def test_an_embargo_finds_a_model_by_its_alias_and_before_it_is_seen(engine: Engine, clock: SteppedClock) -> None:
    embargoes = SqlEmbargoes(engine, clock)
    embargoes.place("org/new-name", None, LATER, [], "renamed")
    assert not embargoes.sight(ANYONE).sees("org/new-name")
    SqlWatchBook(engine, clock).record_release(release(repo_id="org/first", weights="w"), [])
    SqlWatchBook(engine, clock).record_release(release(repo_id="org/new-name", weights="w"), [])
    sight = embargoes.sight(ANYONE)
    assert not sight.sees("org/first") and not sight.sees("org/new-name", "cpu") and sight.sees("org/else")


def test_embargoes_of_nothing_or_of_the_past_are_refused(engine: Engine, clock: SteppedClock) -> None:
    embargoes = SqlEmbargoes(engine, clock)
    with pytest.raises(BadInputError, match="nothing in particular"):
        embargoes.place(None, None, LATER, [], "why")
    with pytest.raises(BadInputError, match="is over"):
        embargoes.place("org/m", None, DAY_ZERO, [], "why")
    with pytest.raises(NotFoundError, match="no token"):
        embargoes.place("org/m", None, LATER, ["nobody"], "why")
    assert embargoes.embargoes() == ()
