"""What one caller may ask of the door in a minute, with addresses and tokens that a test makes up."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network

import pytest
from fastapi import Depends, FastAPI, Request
from fastapi.testclient import TestClient

from dayzero.domain.access import AccessToken, AuditRecord, Scope, Viewer
from dayzero.errors import BadInputError
from dayzero.settings import Settings
from dayzero.web import limiting
from dayzero.web.limiting import Limiting, Limits, limits_from
from dayzero.web.session import session_router
from dayzero.web.viewers import demand, viewer_from

NOW = datetime(2026, 12, 1, tzinfo=UTC)
LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
FEW = Limits(reads=5, writes=2, wrong_tokens=3, unlimited=LOOPBACK)


@dataclass
class Tokens:
    """An Access of two tokens that counts how often it is asked."""

    good: dict[str, AccessToken] = field(
        default_factory=lambda: {
            name: AccessToken(name, name, Scope.ADMIN, None, NOW, NOW + timedelta(days=1)) for name in ("ada", "bob")
        }
    )
    asked: int = 0

    def check(self, token: str) -> AccessToken | None:
        self.asked += 1
        return self.good.get(token)

    def issue(self, name: str, scope: Scope, valid_s: float) -> tuple[str, AccessToken]:
        raise NotImplementedError

    def tokens(self) -> Sequence[AccessToken]:
        raise NotImplementedError

    def revoke(self, token_id: str) -> AccessToken:
        raise NotImplementedError

    def record(self, who: str, action: str, subject: str, detail: str = "") -> None:
        raise NotImplementedError

    def trail(self, limit: int = 100) -> Sequence[AuditRecord]:
        raise NotImplementedError


Door = Callable[..., TestClient]


@pytest.fixture
def tokens() -> Tokens:
    return Tokens()


@pytest.fixture
def door(tokens: Tokens) -> Iterator[Door]:
    opened: list[TestClient] = []
    app: list[FastAPI] = []

    def client(address: str = "203.0.113.5", limits: Limits = FEW, slots: int = limiting.SLOTS) -> TestClient:
        if not app:
            app.append(made(tokens, limits, slots))
        opened.append(TestClient(app[0], client=(address, 50_000), follow_redirects=False))
        return opened[-1]

    yield client
    for one in opened:
        one.close()


def made(tokens: Tokens, limits: Limits, slots: int) -> FastAPI:
    app = FastAPI()
    reading, writing = Depends(viewer_from(tokens)), Depends(demand(tokens, Scope.WRITE))

    @app.get("/v1/compat")
    def read(viewer: Viewer = reading) -> dict[str, str]:
        return {}

    @app.post("/v1/reports")
    def write(token: AccessToken = writing) -> dict[str, str]:
        return {}

    @app.post("/v1/ledger/log")
    def ledger(request: Request, token: AccessToken = writing) -> dict[str, str]:
        return {}

    @app.get("/static/dayzero.css")
    def static() -> dict[str, str]:
        return {}

    app.include_router(session_router(tokens))
    app.add_middleware(Limiting, limits=limits, slots=slots)
    return app


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_reads_and_writes_of_an_address_have_their_own_limits(door: Door) -> None:
    client = door()
    answers = [client.get("/v1/compat") for _ in range(6)]
    assert [one.status_code for one in answers] == [200] * 5 + [429]
    assert answers[0].headers["ratelimit-policy"] == '"reads";q=5;w=60'
    assert answers[0].headers["ratelimit"].startswith('"reads";r=4;t=')
    refused = answers[-1]
    assert refused.headers["content-type"] == "application/problem+json"
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert refused.json()["status"] == 429 and "more than 5 reads in a minute from this address" in refused.json()["detail"]
    assert client.post("/v1/reports").status_code == 401, "writes are counted apart"
    assert client.get("/static/dayzero.css").status_code == 200
    page = client.get("/session")
    assert page.status_code == 429 and page.headers["content-type"].startswith("text/html") and page.headers["retry-after"]
    assert door("203.0.113.6").get("/v1/compat").status_code == 200
    assert [client.post("/v1/reports").status_code for _ in range(2)] == [401, 429]


def test_a_good_token_has_a_limit_of_its_own_wherever_it_is(door: Door) -> None:
    client = door()
    assert client.get("/v1/compat", headers=bearer("ada")).status_code == 200
    while client.get("/v1/compat").status_code == 200:
        pass
    answers = [client.get("/v1/compat", headers=bearer("ada")).status_code for _ in range(5)]
    assert answers == [200] * 5
    refused = door("198.51.100.1").get("/v1/compat", headers=bearer("ada"))
    assert refused.status_code == 429 and "from this token" in refused.json()["detail"]


def test_a_new_token_is_looked_at_where_others_have_used_up_the_address(door: Door) -> None:
    client = door()
    while client.get("/v1/compat").status_code == 200:
        pass
    assert [client.get("/v1/compat", headers=bearer("bob")).status_code for _ in range(6)] == [200] * 6
    assert client.get("/v1/compat", headers=bearer("bob")).status_code == 429, "it has a limit of its own from then on"
    client.cookies.set("dayzero-token", "ada")
    assert client.get("/session").status_code == 200
    answers = [client.get("/v1/compat", headers={"cookie": f"dayzero-token={number}"}).status_code for number in range(9)]
    assert answers == [200] + [429] * 8, "made-up ones get no further"


def test_room_comes_back_with_time(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    client = door()
    while client.get("/v1/compat").status_code == 200:
        pass
    really = time.time
    monkeypatch.setattr(time, "time", lambda: really() + 121)
    assert client.get("/v1/compat").status_code == 200


def test_a_flood_of_wrong_tokens_is_refused_without_being_looked_up(door: Door, tokens: Tokens) -> None:
    client = door(limits=Limits(reads=1000, writes=1000, wrong_tokens=3, unlimited=LOOPBACK))
    assert client.get("/v1/compat", headers=bearer("ada")).status_code == 200
    answers = [client.get("/v1/compat", headers=bearer(f"wrong {number}")) for number in range(20)]
    assert [one.status_code for one in answers] == [401] * 3 + [429] * 17
    assert tokens.asked == 4
    assert "more than 3 tokens that are not good in a minute from this address" in answers[-1].json()["detail"]
    assert answers[-1].headers["ratelimit-policy"] == '"wrong-tokens";q=3;w=60'
    assert client.get("/v1/compat", headers=bearer("ada")).status_code == 200, "a token that was good goes on"
    assert client.get("/v1/compat").status_code == 200, "who shows none goes on"
    assert client.get("/v1/compat", headers=bearer("bob")).status_code == 429, "a new one cannot be told from a wrong one"
    assert door("203.0.113.9").get("/v1/compat", headers=bearer("bob")).status_code == 200


def test_a_token_that_is_over_loses_what_it_had(door: Door, tokens: Tokens) -> None:
    client = door()
    assert client.get("/v1/compat", headers=bearer("ada")).status_code == 200
    del tokens.good["ada"]
    assert [client.get("/v1/compat", headers=bearer("ada")).status_code for _ in range(4)] == [401, 401, 401, 429]


def test_loopback_is_not_limited_and_wrong_tokens_there_are_answered_late(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(limiting.asyncio, "sleep", sleep)
    client = door("127.0.0.1")
    assert {client.get("/v1/compat").status_code for _ in range(50)} == {200}
    assert "ratelimit" not in client.get("/v1/compat").headers
    assert [client.post("/v1/reports", headers=bearer("wrong")).status_code for _ in range(5)] == [401] * 5
    assert waited == [limiting.DELAY_S] * 2
    assert client.get("/v1/compat", headers=bearer("bob")).status_code == 200, "a new good token is not held up"
    assert len(waited) == 2
    assert {door("::ffff:127.0.0.1").get("/v1/compat").status_code for _ in range(9)} == {200}


def test_a_worker_is_never_short_of_writes(door: Door) -> None:
    client = door("10.0.0.7")
    assert {client.post("/v1/ledger/log", headers=bearer("ada")).status_code for _ in range(50)} == {200}
    answers = [client.post("/v1/ledger/log", headers=bearer("wrong")) for _ in range(5)]
    assert [one.status_code for one in answers] == [401, 401, 401, 429, 429]
    assert answers[-1].json()["kind"] == "HttpError" and answers[-1].headers["retry-after"], "as workers are told"
    assert client.post("/v1/ledger/log", headers=bearer("ada")).status_code == 200


def test_wrong_tokens_on_the_page_count_too(door: Door) -> None:
    client = door(limits=Limits(writes=100, wrong_tokens=1))
    assert client.post("/session", data={"token": "wrong"}).status_code == 422
    assert client.get("/v1/compat", headers=bearer("wrong")).status_code == 429


def test_customers_are_told_apart_by_their_network(door: Door) -> None:
    for host in range(5):
        assert door(f"2001:db8:1:2::{host:x}").get("/v1/compat").status_code == 200
    assert door("2001:db8:1:2:ffff::1").get("/v1/compat").status_code == 429
    assert door("2001:db8:1:3::1").get("/v1/compat").status_code == 200


def test_a_flood_of_addresses_takes_no_more_memory(tokens: Tokens) -> None:
    app = made(tokens, Limits(reads=10**6), slots=16)
    with TestClient(app) as client:
        stack = app.middleware_stack
        while not isinstance(stack, Limiting):
            stack = stack.app  # type: ignore[union-attr]
        for number in range(500):
            door = TestClient(app, client=(f"10.{number // 250}.0.{number % 250}", 50_000))
            assert door.get("/v1/compat", headers={"cookie": f"dayzero-token={number}"}).status_code == 200
        assert len(stack._counters._limiter.storage.storage) <= 2 * 16  # type: ignore[union-attr]
        assert not stack._known
        client.close()


def test_settings_name_the_limits() -> None:
    limits = limits_from(Settings())
    assert (limits.reads, limits.writes, limits.wrong_tokens) == (600, 60, 20) and limits.unlimited == LOOPBACK
    with pytest.raises(BadInputError, match="no network"):
        limits_from(Settings(unlimited_networks=("everybody",)))
