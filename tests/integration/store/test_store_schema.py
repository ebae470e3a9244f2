"""The schema: migrations, views and the append-only trigger."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from dayzero.adapters.store import migrate, views
from dayzero.adapters.store.catalog import SqlCatalog
from dayzero.adapters.store.connection import open_engine
from dayzero.adapters.store.ledger import SqlLedger
from dayzero.adapters.store.tables_access import EmbargoRow
from dayzero.adapters.store.watch_book import SqlWatchBook
from dayzero.domain.adaptation import AdaptationState
from dayzero.domain.columns import (
    CLOCK_COLUMNS,
    COMPATIBILITY_COLUMNS,
    FEATURE_COLUMNS,
    LAYER_COLUMNS,
    LEAGUE_COLUMNS,
    ROLLUP_COLUMNS,
)
from dayzero.errors import BadInputError, DependencyError, UnavailableError
from seeding import Seeding, seed
from store_nouns import SteppedClock, entry, release

pytestmark = pytest.mark.postgres


def _definitions(engine: Engine) -> dict[str, str]:
    with engine.connect() as connection:
        found = {name: connection.execute(text(f"SELECT pg_get_viewdef('{name}')")).scalar_one() for name in views.VIEWS}
        triggers = connection.execute(text("SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal")).scalars()
        named = text(
            "SELECT prosrc FROM pg_proc WHERE proname IN ('refuse_change', 'keep_standing', 'nonnegative_s') ORDER BY proname"
        )
        bodies = connection.execute(named).scalars().all()
    return {**found, "triggers": "\n".join(sorted(triggers)), "functions": "\n".join(bodies)}


def test_migrations_make_what_the_models_say(engine: Engine, empty_database_url: str) -> None:
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, EmbargoRow.metadata) == []
    from_models = open_engine(empty_database_url)
    with from_models.begin() as connection:
        EmbargoRow.metadata.create_all(connection)
        for statement in views.statements():
            connection.execute(text(statement))
    assert _definitions(engine) == _definitions(from_models)
    from_models.dispose()


@pytest.mark.parametrize(
    ("view", "listed"),
    [
        ("compatibility_current", COMPATIBILITY_COLUMNS),
        ("compatibility_rollup", ROLLUP_COLUMNS),
        ("day_zero_clock", CLOCK_COLUMNS),
        ("day_zero_league", LEAGUE_COLUMNS),
        ("compatibility_layers", LAYER_COLUMNS),
        ("compatibility_features", FEATURE_COLUMNS),
    ],
)
def test_the_listed_columns_are_the_views(engine: Engine, view: str, listed: tuple[object, ...]) -> None:
    kinds = {"text": "text", "bigint": "number", "double precision": "number", "timestamp with time zone": "time"}
    query = text(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = :view ORDER BY ordinal_position"
    )
    with engine.connect() as connection:
        found = [(name, kinds[kind]) for name, kind in connection.execute(query, {"view": view})]
    assert found == [(column.name, column.kind.value) for column in listed]


def test_two_upgrades_at_once(empty_database_url: str) -> None:
    assert migrate.current(empty_database_url)[0] is None
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(migrate.upgrade, [empty_database_url] * 2))
    revision, head = migrate.current(empty_database_url)
    assert revision == head is not None


def test_a_schema_of_another_version_is_refused(database_url: str, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'ffff'"))
    with pytest.raises(DependencyError, match="not one that this version knows"):
        migrate.upgrade(database_url)


def test_an_empty_database_says_what_to_do(empty_database_url: str) -> None:
    engine = open_engine(empty_database_url)
    with pytest.raises(DependencyError, match="dayzero db upgrade"):
        SqlWatchBook(engine, SteppedClock()).sources()
    engine.dispose()


@pytest.mark.parametrize(
    "change", ["UPDATE entries SET reason = 'typed by hand'", "DELETE FROM entries", "TRUNCATE entries CASCADE"]
)
def test_entries_are_append_only(engine: Engine, tmp_path, change: str) -> None:
    clock = SteppedClock()
    made = SqlWatchBook(engine, clock).record_release(release(), ["cpu"]).adaptations[0]
    lease = SqlLedger(engine, clock, artifacts=None).claim(made, 1, "run")  # type: ignore[arg-type]
    SqlCatalog(engine, clock).finish(lease, AdaptationState.DONE, None, entry(release().content_id))
    with pytest.raises(DBAPIError, match="append-only"), engine.begin() as connection:
        connection.execute(text(change))
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*), min(reason) FROM entries")).one() == (1, "All required checks pass.")


@pytest.mark.parametrize("url", ["nonsense", "sqlite://", "postgresql+psycopg2://u@h/d", "mysql://u:p@h/d"])
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(BadInputError, match="DAYZERO_DATABASE_URL"):
        open_engine(url)


def test_a_server_that_does_not_answer() -> None:
    with pytest.raises(UnavailableError, match="does not answer"):
        open_engine("postgresql+psycopg://u:p@127.0.0.1:1/d")


STOOD = """
SELECT e.id FROM entries e
WHERE NOT EXISTS (SELECT 1 FROM entries newer WHERE newer.key_digest = e.key_digest AND newer.seq > e.seq)
  AND NOT (e.predicted AND EXISTS (
      SELECT 1 FROM entries w
      WHERE w.model_id = e.model_id AND w.platform = e.platform AND w.mode = e.mode AND NOT w.predicted))
  AND NOT ((e.predicted OR e.lifecycle = 'blocked') AND EXISTS (
      SELECT 1 FROM entries later WHERE later.adaptation_id = e.adaptation_id AND later.seq > e.seq))
  AND NOT (e.freshness = 'stale' AND EXISTS (
      SELECT 1 FROM entries again
      WHERE again.adaptation_id = e.adaptation_id AND again.seq > e.seq AND again.key_digest <> e.key_digest
        AND again.lifecycle <> 'blocked'))
ORDER BY e.id
"""
"""What stands, said over the whole history; the table that a trigger keeps must hold exactly these."""


def test_what_stands_is_kept_as_the_history_says_it(engine: Engine, tmp_path) -> None:
    shown = Seeding(models=6, platforms=3, entries=240, seed=7)
    seed(engine, shown)
    with engine.connect() as connection:
        stood = connection.execute(text(STOOD)).scalars().all()
        kept = connection.execute(text("SELECT entry_id FROM standing ORDER BY entry_id")).scalars().all()
        assert connection.execute(text("SELECT count(*) FROM entries")).scalar_one() == 240
    assert kept == stood
    assert 6 <= len(kept) < 240
