"""Subscribing over HTTP: tokens, confirmation, leaving, feeds and streams, on a real store with a real receiver."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from xml.etree import ElementTree

import pytest
from fastapi.testclient import TestClient
from pydantic import SecretStr
from standardwebhooks import Webhook
from test_webhook_receiver import Receiver, receiving

from dayzero import app
from dayzero.app import Plane
from dayzero.domain.access import ANYONE, Scope, Viewer
from dayzero.settings import Settings
from dayzero.web.door import create_app
from dayzero.web.routers import all_routers
from store_nouns import release

pytestmark = pytest.mark.postgres
ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.fixture
def plane(database_url: str, tmp_path: Path) -> Iterator[Plane]:
    loopback = ("127.0.0.0/8",)
    settings = Settings(database_url=SecretStr(database_url), data_dir=tmp_path / "data", subscriber_networks=loopback)
    with app.control_plane(settings) as opened:
        yield opened


@pytest.fixture
def client(plane: Plane) -> Iterator[TestClient]:
    with TestClient(create_app(plane, all_routers(plane)), raise_server_exceptions=False) as opened:
        yield opened


def bearer(plane: Plane, scope: Scope = Scope.WRITE) -> dict[str, str]:
    return {"Authorization": f"Bearer {plane.access.issue('tester', scope, 3600)[0]}"}


def happen(plane: Plane, name: str) -> None:
    plane.watchbook.record_release(release(repo_id=name, weights=name), [])
    app.fan_out(plane)


def test_a_subscription_is_confirmed_told_and_left(plane: Plane, client: TestClient) -> None:
    held = bearer(plane)
    with receiving(Receiver([204])) as receiver:
        wanted = {"target": receiver.url, "filter": 'model ~ "org/*"'}
        (made,) = client.post("/v1/subscriptions", json=wanted, headers=held).json()["subscriptions"]
        assert made["problem"] is None and made["confirmed_at"] is None
        happen(plane, "org/early")
        assert app.serve_lanes(plane).delivered == ()
        invitation = Webhook(made["secret"]).verify(receiver.requests[0].body, receiver.requests[0].headers)
        confirm = invitation["data"]["confirm_url"].split("/", 3)[3]
        assert "Confirm" in client.get(f"/{confirm}").text
        assert plane.subscribers.subscription(made["id"]).confirmed_at is None, "looking at a link does nothing"
        assert client.post(f"/{confirm}").status_code == 200
        assert len(app.serve_lanes(plane).delivered) == 1, "what happened meanwhile follows"
        leave = invitation["data"]["unsubscribe_url"].split("/", 3)[3]
        assert client.post(f"/{leave}").status_code == client.post(f"/{leave}").status_code == 200
    assert client.get("/v1/subscriptions", headers=held).json()["subscriptions"] == []
    assert client.post(f"/{confirm}").status_code == 404
    # Not its last character: two bits of that say nothing.
    other = f"{leave[:-9]}{'A' if leave[-9] != 'A' else 'B'}{leave[-8:]}"
    assert client.post(f"/{other}").status_code == client.get("/subscribe/confirm?token=x").status_code == 422
    assert [one.action for one in plane.access.trail(9)] == [
        "subscription.leave", "subscription.confirm", "subscription.add",
    ]  # fmt: skip


def test_who_may_subscribe(plane: Plane, client: TestClient) -> None:
    wanted = {"target": "https://93.184.215.14/x"}
    assert client.post("/v1/subscriptions", json=wanted).status_code == 401
    assert client.post("/v1/subscriptions", json=wanted, headers={"Authorization": "Bearer no"}).status_code == 401
    assert client.post("/v1/subscriptions", json=wanted, headers=bearer(plane, Scope.READ)).status_code == 403
    held, other, admin = bearer(plane), bearer(plane), bearer(plane, Scope.ADMIN)
    for wrong in ({"target": "http://10.0.0.1/"}, {"target": "https://a", "filter": "x"}, {"target": "syslog://"}, {}):
        assert client.post("/v1/subscriptions", json=wrong, headers=held).status_code == 422
    with receiving(Receiver([204])) as receiver:
        made = client.post("/v1/subscriptions", json={"target": receiver.url}, headers=held).json()["subscriptions"][0]["id"]
    assert client.delete(f"/v1/subscriptions/{made}", headers=other).status_code == 404
    assert len(client.get("/v1/subscriptions", headers=admin).json()["subscriptions"]) == 1
    assert client.post(f"/v1/subscriptions/{made}/replay", headers=held).json()["replayed"] == 0
    assert client.delete(f"/v1/subscriptions/{made}", headers=held).status_code == 204


def test_the_page_takes_forms_of_its_own_only(plane: Plane, client: TestClient) -> None:
    assert "scope write" in client.get("/subscribe").text
    token = plane.access.issue("person", Scope.WRITE, 3600)[0]
    client.cookies.set("dayzero-token", token)
    with receiving(Receiver([204])) as receiver:
        form = {"target": receiver.url, "filter": "", "digest_minutes": "5", "quiet": "22:00-07:00 Europe/Berlin"}
        assert client.post("/subscribe", data=form).status_code == 403
        guard = re.search(r'name="guard" value="([0-9a-f]+)"', client.get("/subscribe").text)
        assert guard is not None
        form["guard"] = guard.group(1)
        answer = client.post("/subscribe", data=form)
        assert answer.status_code == 200 and "whsec_" in answer.text
        bad = client.post("/subscribe", data={**form, "filter": "<script>"})
        assert bad.status_code == 422 and "<script>" not in bad.text
    (made,) = plane.subscribers.subscriptions()
    assert made.manner.digest_every_s == 300 and made.manner.quiet is not None
    assert made.target.rpartition("/")[0] in client.get("/subscribe").text
    client.post(f"/subscribe/{made.id}/remove", data={"guard": form["guard"]})
    assert plane.subscribers.subscriptions() == ()


def test_the_feed_shows_what_matches_and_what_the_reader_may_see(plane: Plane, client: TestClient) -> None:
    happen(plane, "org/<b>&\x01\u202e")
    happen(plane, "org/secret")
    happen(plane, "other/x")
    plane.embargoes.place("org/secret", None, plane.clock.now() + timedelta(days=1), [], "why")
    answer = client.get("/feed.atom", params={"filter": 'model ~ "org/*"'})
    feed = ElementTree.fromstring(answer.content)
    (entry,) = feed.findall(f"{ATOM}entry")
    assert "<b>&" in str(entry.findtext(f"{ATOM}title"))
    assert "secret" not in client.get("/feed.atom").text
    assert client.get("/feed.atom", params={"filter": "nope"}).status_code == 422
    assert len(plane.feed.newest("", ANYONE, 9)) == 2 and len(plane.feed.after(0, "", Viewer("x"), 9).events) == 2


def test_the_stream_goes_on_where_its_reader_left_off(plane: Plane) -> None:
    for name in ("org/a", "org/b", "org/c"):
        happen(plane, name)
    first = plane.feed.after(0, "", ANYONE, 1)
    rest = plane.feed.after(plane.feed.position_of(first.events[0].id) or 0, "", ANYONE, 10)
    assert [event.subject for event in (*first.events, *rest.events)] == ["org/a", "org/b", "org/c"]
    assert rest.position == plane.feed.last()
    assert plane.feed.position_of("nothing") is None
