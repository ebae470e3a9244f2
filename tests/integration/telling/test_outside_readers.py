"""Programs that read the list from outside: the client, an assistant's tools, and a reader of the database."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from fastapi.testclient import TestClient
from pydantic import SecretStr

from dayzero import app
from dayzero.adapters.assistants.protocol import server_on
from dayzero.adapters.store.readers import add_reader
from dayzero.app import Plane
from dayzero.client import Client, Refused
from dayzero.domain.adaptation import AdaptationState
from dayzero.domain.entry import Correctness
from dayzero.errors import BadInputError
from dayzero.settings import Settings
from dayzero.web.door import create_app
from dayzero.web.routers import all_routers
from store_nouns import entry, release

pytestmark = pytest.mark.postgres


@pytest.fixture
def plane(database_url: str, tmp_path: Path) -> Iterator[Plane]:
    settings = Settings(database_url=SecretStr(database_url), data_dir=tmp_path / "data")
    with app.control_plane(settings) as opened:
        for name, correctness in (("org/good", Correctness.VERIFIED), ("org/bad", Correctness.FAILING)):
            published = release(repo_id=name, weights=name)
            lease = opened.ledger.claim(opened.watchbook.record_release(published, ["cpu"]).adaptations[0], 1, "tester")
            opened.catalog.finish(lease, AdaptationState.DONE, "done", entry(published.content_id, correctness, model=name))
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


def test_a_reader_sees_the_views_and_nothing_else(plane: Plane, database_url: str) -> None:
    url = add_reader(database_url, "grafana")
    plane.embargoes.place("org/good", None, datetime.now(UTC) + timedelta(hours=1), [], "until the launch")
    with psycopg.connect(url, autocommit=True) as connection:
        for view in ("compatibility_current", "compatibility_rollup", "compatibility_versions", "day_zero_clock"):
            found = connection.execute(f"SELECT model FROM {view}".encode()).fetchall()
            assert found == [("org/bad",)], view
        for forbidden in (
            "SELECT * FROM public.tokens",
            "SELECT * FROM public.compatibility_current",
            "CREATE TABLE x (y int)",
        ):
            with pytest.raises(psycopg.errors.Error, match=r"permission denied|read-only"):
                connection.execute(forbidden.encode())
    assert add_reader(database_url, "grafana") != url
    with pytest.raises(BadInputError, match="no name"):
        add_reader(database_url, "x; DROP")
