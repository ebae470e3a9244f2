"""What is under embargo is behind no route of the door: every one that can be read is asked."""

from dataclasses import replace
from datetime import timedelta

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from starlette.routing import Route

from dayzero import app
from dayzero.app import Plane
from dayzero.domain.access import ANYONE, Scope, Viewer
from dayzero.domain.adaptation import AdaptationState
from dayzero.domain.ageing import Ageing, Cause
from dayzero.domain.told_results import Claim, ReportKind, ReportState, Saying
from dayzero.stages.failures.finding import failures_of
from dayzero.web.door import create_app
from dayzero.web.routers import all_routers
from store_nouns import check, entry, release

pytestmark = pytest.mark.postgres
SECRET = "org/zzsecretzz"
ENDLESS = {"/runs/events", "/v1/events"}
"""Streams: their queries are asked instead."""
TOTALS = ("/v1/failures", "/v1/gaps", "/v1/queue")
EVERYWHERE = {"/", "/clock", "/failures", "/queue", "/releases", "/runs", "/v1/clock", "/v1/compat", "/v1/reports", *TOTALS}
"""Routes that show it to those who may see it, without being asked for it by name."""


def adapted(plane: Plane, name: str) -> str:
    """A model that was adapted; the id of its adaptation."""
    published = release(repo_id=name, weights=name)
    recorded = plane.watchbook.record_release(published, ["cpu"])
    lease = plane.ledger.claim(recorded.adaptations[0], 1, "tester")
    plane.ledger.put_check(check(), lease)
    made = entry(published.content_id, model=name)
    key = replace(made.key, content_id=published.content_id, model=name)
    known = replace(made, key=key, gaps=(f"aten.{name.partition('/')[2]}.default",))
    plane.catalog.finish(lease, AdaptationState.DONE, "done", replace(known, failures=failures_of(known)))
    return lease.adaptation_id


def make_old(plane: Plane) -> None:
    """Everything that stands is stale, and waits to be run again."""
    for one in plane.ageing.standing():
        assert plane.ageing.mark(one, (Ageing(Cause.STACK, f"{one.model} ran in another stack"),))


def asked(door: object, values: dict[str, str]) -> list[str]:
    """The path of every route that answers GET, its parameters filled in."""
    paths = []

    def walk(routes: object) -> None:
        for route in routes:  # type: ignore[attr-defined]
            nested = getattr(getattr(route, "original_router", None), "routes", None)
            if nested is not None:
                walk(nested)
            elif isinstance(route, APIRoute | Route) and "GET" in (route.methods or ()) and route.path not in ENDLESS:
                path = route.path
                for name, value in values.items():
                    path = path.replace("{" + name + "}", value).replace("{" + name + ":path}", value)
                paths.append(path)

    walk(door.routes)  # type: ignore[attr-defined]
    return sorted(set(paths))


def test_no_route_shows_it_to_others_and_every_one_does_to_those_it_names(plane: Plane) -> None:
    ids = {name: adapted(plane, name) for name in (SECRET, "org/open")}
    make_old(plane)
    claim = Claim(SECRET, "cpu", Saying.WORKS, "a table")
    plane.reports.tell(ReportKind.DECLARED, (claim,), "operator", ReportState.ACCEPTED)
    (row,) = plane.compatibility.current(f'model = "{SECRET}"')
    (other,) = plane.compatibility.current('model = "org/open"')
    app.fan_out(plane)
    token, partner = plane.access.issue("partner", Scope.READ, 3600)
    plane.embargoes.place(SECRET, None, plane.clock.now() + timedelta(hours=1), [partner.id], "agreement")
    stranger, _ = plane.access.issue("stranger", Scope.ADMIN, 3600)
    values = {
        "entry_id": str(row["entry_id"]), "adaptation_id": ids[SECRET], "old": str(row["entry_id"]),
        "new": str(other["entry_id"]), "name": SECRET, "model": SECRET, "slug": "cpu", "platform": "cpu",
    }  # fmt: skip
    door = create_app(plane, all_routers(plane))
    paths = asked(door, values)
    assert len(paths) > 15, paths
    shows: dict[str, set[str]] = {}
    with TestClient(door, raise_server_exceptions=False) as client:
        for who, headers in (
            ("anyone", {}),
            ("stranger", {"Authorization": f"Bearer {stranger}"}),
            ("partner", {"Authorization": f"Bearer {token}"}),
        ):
            for path in paths:
                answer = client.get(path, headers=headers)
                assert answer.status_code < 500, (who, path)
                # A path that says the name itself may be answered with it, as any name that nobody knows.
                if "zzsecretzz" in answer.text and (answer.status_code == 200 and not path.startswith("/badge/")):
                    shows.setdefault(who, set()).add(path)
        nobody = client.get("/badge/cpu/org/nosuchmodel").text
        assert client.get(f"/badge/cpu/{SECRET}").text == nobody
        hidden, unknown = (client.get(f"/v1/models/{name}") for name in (SECRET, "org/nosuchmodel"))
        assert hidden.status_code == unknown.status_code == 404
        assert hidden.text.replace(SECRET, "") == unknown.text.replace("org/nosuchmodel", "")
        counts = client.get("/v1/platforms").text
        for query in ({"search": "zzsecretzz"}, {"filter": f'model = "{SECRET}"'}):
            assert client.get("/v1/compat", params=query).json()["entries"] == []
        for kind in ("json", "csv", "markdown", "parquet"):
            assert b"zzsecretzz" not in client.get("/v1/compat/export", params={"format": kind}).content
        for path in TOTALS:
            assert client.get(path).json()["total"] == 1, path
            assert client.get(path, headers={"Authorization": f"Bearer {token}"}).json()["total"] == 2, path
        assert client.get("/v1/league").json()["league"][0]["models"] == 1
    assert set(shows) == {"partner"}, shows
    assert shows["partner"] >= EVERYWHERE, EVERYWHERE - shows["partner"]
    assert '"models":2' not in counts
    for viewer in (ANYONE, Viewer("nobody")):
        assert SECRET not in {event.subject for event in plane.feed.after(0, "", viewer, 100).events}
        assert SECRET not in {run.model for run in plane.reading.seen_by(viewer).changed_runs(3600)}
