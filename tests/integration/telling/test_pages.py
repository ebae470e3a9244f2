"""The pages of the list and of the work, on a real store: first visits, hostile names, streams, tokens, embargoes."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from fastapi.testclient import TestClient

from dayzero.app import Plane
from dayzero.domain.access import ANYONE, Scope
from dayzero.domain.adaptation import AdaptationState
from dayzero.domain.entry import Correctness
from dayzero.domain.release import HubKind, ReleaseStage
from dayzero.domain.watching import Rule
from dayzero.ports.catalog import PassedOver
from dayzero.web.door import create_app
from dayzero.web.routers import all_routers
from dayzero.web.runs import Streams
from store_nouns import entry, release

pytestmark = pytest.mark.postgres

HOSTILE = "org/<script>alert(1)</script>\u202e" + "x" * 600
PAGES = ("/", "/platforms", "/releases", "/releases?show=ignored", "/runs", "/session", "/method")


@pytest.fixture
def client(plane: Plane) -> Iterator[TestClient]:
    with TestClient(create_app(plane, all_routers(plane)), raise_server_exceptions=False, follow_redirects=False) as opened:
        yield opened


def finish(
    plane: Plane, repo_id: str = "org/model", platform: str = "cpu", correctness: Correctness = Correctness.VERIFIED
) -> str:
    published = release(repo_id=repo_id, weights=repo_id)
    recorded = plane.watchbook.record_release(published, ["cpu"])
    lease = plane.ledger.claim(recorded.adaptations[0], 1, "tester")
    made = entry(published.content_id, correctness, model=repo_id)
    plane.catalog.finish(lease, AdaptationState.DONE, "done", made)
    return lease.adaptation_id


def test_an_empty_list_says_what_to_do_first(client: TestClient) -> None:
    for path in PAGES:
        page = client.get(path)
        assert page.status_code == 200, path
    for path in ("/", "/platforms", "/releases", "/runs"):
        assert "dayzero watch add" in client.get(path).text, path


def test_one_in_progress_and_one_failed_say_what_to_do_next(plane: Plane, client: TestClient) -> None:
    plane.watchbook.add_source(HubKind.HUGGING_FACE, "https://hub.test", Rule(), None)
    assert "nothing on it was taken yet" in client.get("/").text
    recorded = plane.watchbook.record_release(release(), ["cpu"])
    assert "1 adaptations are under way" in client.get("/").text
    assert "requested" in client.get("/models/org/model").text
    lease = plane.ledger.claim(recorded.adaptations[0], 1, "tester")
    plane.catalog.finish(lease, AdaptationState.FAILED, "the disk is full", None)
    assert "failed or wait for you" in client.get("/").text
    assert "the disk is full" in client.get("/runs?state=failed").text
    shown = client.get(f"/runs/{lease.adaptation_id}").text
    assert f"dayzero run retry {lease.adaptation_id}" in shown and "give a token" in shown
    assert "dayzero worker join --platform cpu" in client.get("/platforms/cpu").text


def test_hostile_names_are_escaped_isolated_and_cut(plane: Plane, client: TestClient) -> None:
    finish(plane, HOSTILE)
    for path in (*PAGES, f"/models/{HOSTILE}"):
        page = client.get(path)
        assert page.status_code == 200
        assert "<script>alert" not in page.text and "\u202e" not in page.text
        assert "x" * 500 not in page.text.replace(f'{"x" * 600}"', ""), "names are cut where they are shown"
        assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "<bdi" in client.get("/").text
    assert client.get("/models/" + "y" * 10_000).status_code == 404
    assert client.get("/?search=" + "y" * 10_000).status_code == 422
    assert client.get("/?filter=" + "not " * 900 + 'model = "x"').status_code == 422


def test_pages_follow_one_another_by_cursor(plane: Plane) -> None:
    for number in range(5):
        finish(plane, f"org/m{number}", correctness=Correctness.FAILING if number % 2 else Correctness.VERIFIED)
    reading = plane.reading
    whole = [row["model"] for row in reading.entries().rows]
    seen, cursor = [], None
    while True:
        page = reading.entries(limit=2, cursor=cursor)
        seen += [row["model"] for row in page.rows]
        finish_again = [row for row in page.rows if row["model"] == "org/m1"]
        assert len(finish_again) <= 1
        cursor = page.next
        if cursor is None:
            break
    assert seen == whole == [f"org/m{number}" for number in range(5)]
    assert reading.matrix(search="m3").lines[0].model == "org/m3"
    assert reading.matrix('correctness = "failing"').counts["entries"] == 2
    assert reading.matrix().counts == {
        "verified": 3, "functional": 0, "failing": 2, "unknown": 0, "stale": 0, "entries": 5, "models": 5,
    }  # fmt: skip
    assert [row["best_entry_id"] for row in reading.rollup().rows] == [
        row["best_entry_id"] for row in plane.compatibility.rollup()
    ]


def test_answers_carry_tags_and_times(plane: Plane, client: TestClient) -> None:
    finish(plane)
    first = client.get("/v1/compat")
    assert float(first.headers["server-timing"].partition("dur=")[2]) >= 0
    again = client.get("/v1/compat", headers={"if-none-match": first.headers["etag"]})
    assert again.status_code == 304 and again.content == b""
    finish(plane, "org/other")
    assert client.get("/v1/compat", headers={"if-none-match": first.headers["etag"]}).status_code == 200
    refused = client.get("/v1/compat?cursor=nonsense")
    assert refused.status_code == 422 and refused.headers["content-type"] == "application/problem+json"
    assert "cursor" in refused.json()["detail"]


def test_the_feed_says_what_was_not_taken_and_why(plane: Plane, client: TestClient) -> None:
    source = plane.watchbook.add_source(HubKind.HUGGING_FACE, "https://hub.test", Rule(), None)
    plane.watchbook.passed_over(
        source.id,
        [PassedOver("org/small", "12 bytes of weights are fewer than 1000"), PassedOver("org/bad", "no answer", failed=True)],
    )
    page = client.get("/releases?show=ignored").text
    assert "12 bytes of weights are fewer than 1000" in page and "no answer" in page
    plane.watchbook.passed_over(source.id, [PassedOver("org/small", "now for another reason")])
    assert "now for another reason" in client.get("/releases?show=ignored").text
    plane.watchbook.record_release(release(repo_id="org/small", stage=ReleaseStage.WEIGHTS), ["cpu"])
    assert "now for another reason" not in client.get("/releases?show=ignored").text
    assert "org/small" in client.get("/releases").text


def test_badges_and_exports(plane: Plane, client: TestClient) -> None:
    finish(plane)
    badge = client.get("/badge/cpu/org/model.svg")
    assert badge.headers["content-type"] == "image/svg+xml" and "verified" in badge.text
    assert "not tried" in client.get("/badge/cpu/org/none.svg").text
    assert "<script" not in client.get("/badge/<script>/org/none.svg").text
    for kind in ("json", "csv", "markdown"):
        exported = client.get(f"/v1/compat/export?format={kind}")
        assert "org/model" in exported.text.replace("\\", "")
    pyarrow = pytest.importorskip("pyarrow.parquet")
    import io

    table = pyarrow.read_table(io.BytesIO(client.get("/v1/compat/export?format=parquet").content))
    assert table.column("model").to_pylist() == ["org/model"]
    assert table.column("devices").to_pylist() == [3.0]


def test_with_a_token_runs_are_cancelled_and_retried(plane: Plane, client: TestClient) -> None:
    recorded = plane.watchbook.record_release(release(), ["cpu"])
    run = recorded.adaptations[0]
    assert client.post(f"/runs/{run}/cancel").status_code == 403
    token, _ = plane.access.issue("Ada", Scope.WRITE, 3600)
    assert client.post("/session", data={"token": "nonsense"}).status_code == 422
    assert client.post("/session", data={"token": token}, headers={"origin": "https://evil.test"}).status_code == 403
    assert client.post("/session", data={"token": token}).status_code == 303
    page = client.get(f"/runs/{run}").text
    guard = page.partition('name="guard" value="')[2].partition('"')[0]
    assert client.post(f"/runs/{run}/cancel", data={"guard": "0" * 64}).status_code == 403
    assert client.post(f"/runs/{run}/cancel", data={"guard": guard}).status_code == 303
    assert plane.reading.run(run).state is AdaptationState.CANCELLED
    assert client.post(f"/runs/{run}/retry", data={"guard": guard}).status_code == 303
    assert plane.reading.run(run).state is AdaptationState.REQUESTED
    assert [line.action for line in plane.access.trail()][:2] == ["run.retry", "run.cancel"]
    assert client.post(f"/runs/{run}/eat", data={"guard": guard}).status_code == 422
    assert client.post("/session/end", data={"guard": guard}).status_code == 303


async def first_of(streams: Streams, count: int) -> list[str]:
    """The first events of a stream."""
    found, stream = [], streams.open(ANYONE)
    async for event in stream:
        found.append(event)
        if len(found) == count:
            break
    await stream.aclose()  # type: ignore[attr-defined]
    return found


def test_changes_of_runs_come_as_events(plane: Plane) -> None:
    import asyncio

    recorded = plane.watchbook.record_release(release(), ["cpu"])
    (first,) = asyncio.run(first_of(Streams(plane), 1))
    assert first.startswith("event: runs\ndata: ")
    (told,) = json.loads(first.partition("data: ")[2])
    assert (told["id"], told["state"], told["model"]) == (recorded.adaptations[0], "requested", "org/model")


def test_what_is_under_embargo_shows_nowhere(plane: Plane, client: TestClient) -> None:
    finish(plane, "org/secret")
    finish(plane, "org/open")
    token, held = plane.access.issue("Ada", Scope.READ, 3600)
    plane.embargoes.place("org/secret", None, datetime.now(UTC) + timedelta(hours=1), [held.id], "until the launch")
    paths = (
        *PAGES,
        "/platforms/cpu",
        "/v1/compat",
        "/v1/compat/rollup",
        "/v1/compat/export",
        "/v1/releases",
        "/v1/runs",
        "/v1/platforms/cpu",
    )
    for path in paths:
        assert "secret" not in client.get(path).text, path
    assert "1 models" in client.get("/").text
    assert client.get("/models/org/secret").status_code == client.get("/v1/models/org/secret").status_code == 404
    assert "not tried" in client.get("/badge/cpu/org/secret.svg").text
    shown = client.get("/v1/compat", headers={"authorization": f"Bearer {token}"})
    assert "org/secret" in shown.text


def test_where_reading_is_closed_everything_asks_for_a_token(plane: Plane) -> None:
    finish(plane)
    token, _ = plane.access.issue("Ada", Scope.READ, 3600)
    with TestClient(create_app(plane, all_routers(plane, open_reading=False)), raise_server_exceptions=False) as closed:
        for path in ("/", "/platforms", "/releases", "/runs", "/models/org/model", "/v1/compat", "/badge/cpu/org/model.svg"):
            refused = closed.get(path)
            assert refused.status_code == 401 and "org/model" not in refused.text, path
            assert closed.get(path, headers={"authorization": f"Bearer {token}"}).status_code == 200, path
        assert closed.get("/session").status_code == 200


def test_two_entries_of_a_model_show_the_best(plane: Plane) -> None:
    finish(plane)
    row = plane.reading.entries().rows[0]
    lease = plane.ledger.claim(
        plane.watchbook.record_release(release(revision="r2", weights="w2"), ["cpu"]).adaptations[0], 1, "x"
    )
    failing = entry(plane.reading.run(lease.adaptation_id).content_id, Correctness.FAILING)
    plane.catalog.finish(lease, AdaptationState.DONE, "done", replace(failing, reason="1 check fails."))
    cell = plane.reading.matrix().lines[0].cells["cpu"]
    assert (cell.correctness, cell.freshness, cell.entries) in {("failing", "current", 2), ("failing", "current", 1)}
    assert cell.entry_id != row["entry_id"]
