"""What was known on the command line alone, as pages and API: clocks, league, failures, gaps, the queue, and others' words."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from dayzero.app import Plane
from dayzero.domain.adaptation import AdaptationState
from dayzero.domain.ageing import Ageing, Cause
from dayzero.domain.told_results import Claim, ReportKind, ReportState, Saying
from dayzero.stages.failures.finding import failures_of
from dayzero.web.door import create_app
from dayzero.web.routers import all_routers
from store_nouns import entry, release

pytestmark = pytest.mark.postgres


@pytest.fixture
def client(plane: Plane) -> Iterator[TestClient]:
    with TestClient(create_app(plane, all_routers(plane)), raise_server_exceptions=False) as opened:
        yield opened


def finish(plane: Plane, name: str, gaps: tuple[str, ...] = (), platform: str = "cpu") -> str:
    """A model that was adapted; the id of its entry."""
    published = release(repo_id=name, weights=name)
    lease = plane.ledger.claim(plane.watchbook.record_release(published, [platform]).adaptations[0], 1, "tester")
    made = entry(published.content_id, model=name)
    known = replace(made, key=replace(made.key, model=name, platform=platform), gaps=gaps)
    plane.catalog.finish(lease, AdaptationState.DONE, "done", replace(known, failures=failures_of(known)))
    (row,) = plane.compatibility.current(f'model = "{name}"')
    return str(row["entry_id"])


def test_before_anything_is_known_every_page_says_so(client: TestClient) -> None:
    for path, said in (
        ("/clock", "No weights of a model"),
        ("/failures", "No model lacks an operator"),
        ("/queue", "Nothing waits"),
    ):
        page = client.get(path)
        assert page.status_code == 200 and said in page.text, path
    for path in ("/v1/failures", "/v1/gaps", "/v1/queue"):
        assert client.get(path).json()["total"] == 0
    assert client.get("/v1/clock").json()["clock"] == client.get("/v1/league").json()["league"] == []


def test_clocks_follow_one_another_and_the_league_counts_them(plane: Plane, client: TestClient) -> None:
    for number in range(5):
        finish(plane, f"org/m{number}", platform="cpu" if number < 3 else "h100")
    whole = [(row["model"], row["platform"]) for row in client.get("/v1/clock").json()["clock"]]
    assert len(whole) == 5
    seen, cursor = [], None
    while True:
        page = client.get("/v1/clock", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        seen += [(row["model"], row["platform"]) for row in page["clock"]]
        cursor = page.get("next")
        if cursor is None:
            break
    assert seen == whole
    assert {row["model"] for row in client.get("/v1/clock?platform=h100").json()["clock"]} == {"org/m3", "org/m4"}
    assert [row["platform"] for row in client.get("/v1/clock?model=org/m1").json()["clock"]] == ["cpu"]
    assert client.get("/v1/clock?model=org/none").json()["clock"] == []
    assert client.get("/v1/clock?cursor=nonsense").status_code == 422
    assert client.get("/clock?cursor=nonsense").status_code == 422
    table = {row["platform"]: row for row in client.get("/v1/league").json()["league"]}
    assert {slug: row["models"] for slug, row in table.items()} == {"cpu": 3, "h100": 2}
    shown = client.get("/v1/platforms/cpu").json()["platform"]
    assert (shown["timed"], shown["target_s"]) == (3, 86400.0)
    assert [shown[name] for name in ("verified", "within_target", "median_s")] == [
        table["cpu"][name] for name in ("verified", "within_target", "median_s")
    ], "a platform's page and the league say the same"


def test_gaps_are_ranked_everywhere_by_what_they_unlock(plane: Plane, client: TestClient) -> None:
    finish(plane, "org/a", ("aten.one.default",))
    finish(plane, "org/b", ("aten.one.default", "aten.two.default"))
    finish(plane, "org/c", ("aten.two.default",), platform="h100")
    found = client.get("/v1/gaps").json()
    ranked = [(gap["operator"], gap["failure"]["platform"], gap["unlocked"]) for gap in found["gaps"]]
    assert ranked == [
        ("aten.one.default", "cpu", ["org/a"]), ("aten.two.default", "h100", ["org/c"]), ("aten.two.default", "cpu", []),
    ]  # fmt: skip
    assert client.get("/v1/gaps?platform=h100").json()["total"] == 1
    of_platform = client.get("/v1/platforms/cpu").json()["platform"]["gaps"]
    assert [(gap["operator"], gap["models"], gap["unlocked"]) for gap in of_platform] == [
        ("aten.one.default", 2, 1), ("aten.two.default", 1, 0),
    ]  # fmt: skip
    signature = of_platform[0]["failure"]
    plane.failures.explain(signature, {"owner": "Ada <b>", "ticket": "javascript:alert(1)", "cause": "none yet"})
    page = client.get("/failures").text
    assert "Ada &lt;b&gt;" in page and 'href="javascript' not in page and "/platforms/h100" in page
    plane.failures.explain(signature, {"ticket": "https://tracker.test/1"})
    for path in ("/failures?operator=aten.one.default", "/platforms/cpu"):
        assert 'href="https://tracker.test/1"' in client.get(path).text
    assert "aten.two.default" not in client.get("/failures?operator=aten.one.default").text
    assert client.get("/v1/failures?operator=aten.one.default").json()["failures"][0]["models"] == ["org/a", "org/b"]
    assert client.get("/v1/failures", params={"platform": "\0"}).status_code < 500


def test_the_queue_says_what_is_run_again_first_and_why(plane: Plane, client: TestClient) -> None:
    finish(plane, "org/a")
    finish(plane, "org/b", platform="h100")
    for one in plane.ageing.standing():
        plane.ageing.mark(one, (Ageing(Cause.STACK, f"the stack of {one.platform} is another"),))
    found = client.get("/v1/queue").json()
    assert found["total"] == 2 and {place["rerun"]["model"] for place in found["queue"]} == {"org/a", "org/b"}
    assert all(place["score"] > 0 and place["terms"] for place in found["queue"])
    assert client.get("/v1/queue?platform=h100&limit=1").json()["queue"][0]["rerun"]["reasons"] == [
        "the stack of h100 is another"
    ]
    page = client.get("/queue").text
    assert "2 wait" in page and "the stack of h100 is another" in page and "device-hours" in page


def test_what_others_say_stands_apart_and_is_called_declared(plane: Plane, client: TestClient) -> None:
    shown = finish(plane, "org/a")
    claim = Claim("org/a", "cpu", Saying.PARTLY, "table <i>.csv", "vllm", figures={"ttft_s": 0.25})
    plane.reports.tell(ReportKind.DECLARED, (claim,), "operator", ReportState.ACCEPTED)
    assert "What others say" in client.get(f"/compat/{shown}").text
    plane.reports.tell(ReportKind.FIELD, (replace(claim, source="not judged"),), "operator", ReportState.PENDING)
    for path in (f"/compat/{shown}", "/models/org/a"):
        page = client.get(path).text
        apart = page.partition("What others say")[2]
        assert "Declared, not measured" in apart and "table &lt;i&gt;.csv" in apart and "0.25" in apart, path
        assert "not judged" not in page, path
    elsewhere = finish(plane, "org/b")
    assert "What others say" not in client.get(f"/compat/{elsewhere}").text + client.get("/models/org/b").text
