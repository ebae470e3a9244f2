"""Programs that read the list from outside: the client, an assistant's tools, and a reader of the database."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from fastapi.testclient import TestClient
from pydantic import SecretStr
from sqlalchemy import text

from dayzero import app
from dayzero.adapters.assistants.protocol import server_on
from dayzero.adapters.store.connection import open_engine
from dayzero.adapters.store.migrate import upgrade_engine
from dayzero.adapters.store.readers import add_reader
from dayzero.app import Plane
from dayzero.client import Client, Refused
from dayzero.domain.adaptation import AdaptationState
from dayzero.domain.entry import Correctness
from dayzero.domain.features import Feature, LayerVerdict
from dayzero.domain.verdict import CheckLayer, Grade, Verdict
from dayzero.errors import BadInputError
from dayzero.settings import Settings
from dayzero.web.door import create_app
from dayzero.web.routers import all_routers
from store_nouns import entry, release

pytestmark = pytest.mark.postgres


LAYERS = (LayerVerdict(CheckLayer.PRECISION, Verdict.PASS, Grade.MEASURED, 8, 1, (), ()),)
FEATURES = (Feature("dtype", "float32", Verdict.PASS, Grade.MEASURED, "model.logits"),)


@pytest.fixture
def plane(database_url: str, tmp_path: Path) -> Iterator[Plane]:
    settings = Settings(database_url=SecretStr(database_url), data_dir=tmp_path / "data")
    with app.control_plane(settings) as opened:
        for name, correctness in (("org/good", Correctness.VERIFIED), ("org/bad", Correctness.FAILING)):
            published = release(repo_id=name, weights=name)
            lease = opened.ledger.claim(opened.watchbook.record_release(published, ["cpu"]).adaptations[0], 1, "tester")
            shown = replace(entry(published.content_id, correctness, model=name), layers=LAYERS, features=FEATURES)
            opened.catalog.finish(lease, AdaptationState.DONE, "done", shown)
        yield opened


@pytest.fixture
def client(plane: Plane) -> Iterator[Client]:
    with TestClient(create_app(plane, all_routers(plane))) as door, Client("http://testserver") as opened:
        opened._http.close()
        opened._http = door
        yield opened


def test_the_client_reads_everything(client: Client) -> None:
    assert [one.model for one in client.entries()] == ["org/bad", "org/good"]
    assert [one.model for one in client.entries('correctness = "verified"', search="good")] == ["org/good"]
    best = client.best("org/good", "cpu")
    assert best is not None and best.verified and best.row["devices"] == 3
    assert client.best("org/none", "cpu") is None
    assert client.entry(best.entry_id)["correctness"] == "verified"
    assert client.model("org/good")["name"] == "org/good"
    assert [one["slug"] for one in client.platforms()] == ["cpu"] == [client.platform("cpu")["slug"]]
    assert len(list(client.releases())) == 2 and list(client.releases(taken=False)) == []
    assert [one["state"] for one in client.runs("done")] == ["done", "done"]
    with pytest.raises(Refused, match="no model") as refused:
        client.model("org/none")
    assert refused.value.status == 404


def test_an_assistant_has_reading_tools_alone(client: Client) -> None:
    server = server_on(client)
    tools = asyncio.run(server.list_tools())
    assert {tool.name for tool in tools} == {
        "list_entries", "does_it_run", "show_entry", "show_model", "list_platforms", "show_platform", "list_runs",
    }  # fmt: skip
    assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in tools)
    answered = asyncio.run(server.call_tool("does_it_run", {"model": "org/good", "platform": "cpu"}))
    assert '"verified": true' in str(answered.content[0].text).replace("\n", "")


VIEWS = (
    "compatibility_current", "compatibility_rollup", "compatibility_versions", "compatibility_layers", "compatibility_features",
    "day_zero_clock",
)  # fmt: skip


@pytest.fixture
def reader(plane: Plane, database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(add_reader(database_url, "grafana"), autocommit=True) as connection:
        yield connection


def rows(connection: psycopg.Connection, query: str) -> list[tuple[object, ...]]:
    return connection.execute(query.encode()).fetchall()


def hide(plane: Plane, model: str | None, platform: str | None = None, seconds: float = 3600) -> str:
    return plane.embargoes.place(model, platform, datetime.now(UTC) + timedelta(seconds=seconds), [], "not yet").id


def test_a_reader_sees_the_views_and_nothing_else(plane: Plane, database_url: str, reader: psycopg.Connection) -> None:
    while plane.outbox.fan_out(100):
        pass
    for view in VIEWS:
        assert ("org/good",) in rows(reader, f"SELECT DISTINCT model FROM {view} ORDER BY model"), view
    embargo = hide(plane, "org/good")
    for view in VIEWS:
        assert rows(reader, f"SELECT DISTINCT model FROM {view}") == [("org/bad",)], view
    assert {subject for (subject,) in rows(reader, "SELECT subject FROM events")} == {"org/bad"}
    assert rows(reader, "SELECT models, verified FROM day_zero_league") == [(1, 0)], "counts too"
    assert "good" not in str(rows(reader, "SELECT data FROM events"))
    for forbidden in (
        "SELECT * FROM public.tokens",
        "SELECT * FROM public.sessions",
        "SELECT * FROM public.embargoes",
        "SELECT * FROM public.outbox",
        "SELECT * FROM public.compatibility_current",
        "SELECT most_common_vals FROM pg_stats WHERE schemaname = 'public' AND 1 / (SELECT count(*) FROM public.models) > 0",
        "CREATE TABLE x (y int)",
    ):
        with pytest.raises(psycopg.errors.Error, match=r"permission denied|read-only"):
            rows(reader, forbidden)
    assert rows(reader, "SELECT count(*) FROM pg_stats WHERE schemaname = 'public'") == [(0,)]
    plane.embargoes.lift(embargo)
    assert ("org/good",) in rows(reader, "SELECT model FROM compatibility_current")
    assert add_reader(database_url, "grafana") != add_reader(database_url, "grafana")
    with pytest.raises(BadInputError, match="no name"):
        add_reader(database_url, "x; DROP")


def test_a_condition_of_a_readers_sees_no_more_than_the_reader(plane: Plane, reader: psycopg.Connection) -> None:
    hide(plane, "org/good")
    reader.execute("SET default_transaction_read_only = off")
    reader.execute(
        "CREATE FUNCTION pg_temp.told(t text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS "
        "$$ BEGIN RAISE NOTICE 'saw %', t; RETURN true; END $$"
    )
    said: list[str] = []
    reader.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
    for view in VIEWS:
        rows(reader, f"SELECT 1 FROM {view} WHERE pg_temp.told(model)")
        with pytest.raises(psycopg.errors.InvalidTextRepresentation) as refused:
            rows(reader, f"SELECT 1 FROM {view} WHERE model::int > 0")
        assert "good" not in str(refused.value), view
    rows(reader, "SELECT 1 FROM events WHERE pg_temp.told(data::text)")
    assert said and not [line for line in said if "good" in line]


def test_every_name_of_a_model_and_every_kind_of_embargo_binds_a_reader(
    plane: Plane, database_url: str, reader: psycopg.Connection
) -> None:
    renamed = release(repo_id="org/renamed", weights="org/good")
    plane.watchbook.record_release(renamed, ["cpu"])
    with psycopg.connect(database_url.replace("+psycopg", ""), autocommit=True) as owner:
        assert owner.execute("SELECT alias FROM model_aliases").fetchall() == [("org/renamed",)]
        # An entry that was written under the name of then, which is an alias now.
        owner.execute("UPDATE models SET name = 'org/new' WHERE name = 'org/good'")
        owner.execute(
            "INSERT INTO model_aliases (alias, model_id, created_at) "
            "SELECT 'org/good', id, now() FROM models WHERE name = 'org/new'"
        )
    for model, platform in (
        ("org/new", None), ("org/renamed", None), ("org/good", None), ("org/good", "cpu"), ("org/new", "cpu"),
    ):  # fmt: skip
        embargo = hide(plane, model, platform)
        assert rows(reader, "SELECT model FROM compatibility_current") == [("org/bad",)], (model, platform)
        plane.embargoes.lift(embargo)
    for model, platform in (("org/good", "h100"), ("org/nobody", None), (None, "h100")):
        embargo = hide(plane, model, platform)
        assert len(rows(reader, "SELECT model FROM compatibility_current")) == 2, (model, platform)
        plane.embargoes.lift(embargo)
    hide(plane, None, "cpu", seconds=2)
    assert rows(reader, "SELECT model FROM compatibility_current UNION SELECT platform FROM day_zero_league") == []
    time.sleep(2.1)
    assert len(rows(reader, "SELECT model FROM compatibility_current")) == 2, "it is over"


def test_listeners_are_told_of_nothing_under_embargo(plane: Plane, reader: psycopg.Connection) -> None:
    while plane.outbox.fan_out(100):
        pass
    reader.execute("LISTEN dayzero_events")
    hide(plane, "org/secret")
    hide(plane, None, "h100")

    def told() -> list[str]:
        return [one.payload for one in reader.notifies(timeout=0.5)]

    plane.watchbook.record_release(release(repo_id="org/secret", weights="secret"), ["cpu"])
    assert plane.outbox.fan_out(100) > 0
    assert told() == [], "not even that something happened"
    plane.watchbook.record_release(release(repo_id="org/open", weights="open"), ["cpu"])
    plane.watchbook.record_release(release(repo_id="org/secret", revision="2", weights="secret 2"), ["cpu"])
    assert plane.outbox.fan_out(100) > 0
    payloads = told()
    assert len(payloads) == 1
    found = rows(reader, f"SELECT subject, event FROM events WHERE event_id = '{payloads[0]}'")
    assert [subject for subject, _ in found] == ["org/open"]
    assert not rows(reader, "SELECT 1 FROM events WHERE subject = 'org/secret'")


def test_views_of_an_older_version_are_made_anew(plane: Plane, database_url: str, reader: psycopg.Connection) -> None:
    hide(plane, "org/good")
    engine = open_engine(database_url)
    with engine.begin() as connection:
        connection.execute(text("DROP VIEW reading.compatibility_current"))
        connection.execute(text("CREATE VIEW reading.compatibility_current AS SELECT * FROM public.compatibility_current"))
        connection.execute(text("GRANT SELECT ON reading.compatibility_current TO dayzero_reader"))
        connection.execute(text("COMMENT ON SCHEMA reading IS 'older'"))
    assert len(rows(reader, "SELECT model FROM compatibility_current")) == 2
    upgrade_engine(engine)
    assert rows(reader, "SELECT model FROM compatibility_current") == [("org/bad",)]
    with engine.begin() as connection:
        made = connection.execute(text("SELECT 'reading.compatibility_current'::regclass::oid")).scalar()
    upgrade_engine(engine)
    with engine.begin() as connection:
        again = connection.execute(text("SELECT 'reading.compatibility_current'::regclass::oid")).scalar()
    assert made == again, "what is as it should be stays"
    engine.dispose()
