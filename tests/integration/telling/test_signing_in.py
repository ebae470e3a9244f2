"""Signing in at a real provider on loopback, and everything that it, or whoever stands between, may get wrong."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from fastapi.testclient import TestClient
from joserfc.jwk import RSAKey
from pydantic import SecretStr

from dayzero import app
from dayzero.app import Plane
from dayzero.domain.access import Scope
from dayzero.domain.signing_in import Identity
from dayzero.errors import BadInputError
from dayzero.settings import Settings
from dayzero.web.door import create_app
from dayzero.web.routers import all_routers
from openid_server import CLIENT, SECRET, Provider, serving

pytestmark = pytest.mark.postgres
BASE = "http://127.0.0.1:8711"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving(Provider()) as opened:
        yield opened


def configured(provider: Provider, **more: object) -> dict[str, object]:
    return {
        "oidc_issuer": provider.url,
        "oidc_client_id": CLIENT,
        "oidc_client_secret": SecretStr(SECRET),
        "oidc_scopes": {"ml-platform": "write", "all": "read"},
    } | more


@pytest.fixture
def plane(database_url: str, tmp_path: Path, provider: Provider) -> Iterator[Plane]:
    settings = Settings(database_url=SecretStr(database_url), data_dir=tmp_path / "data", **configured(provider))  # type: ignore[arg-type]
    with app.control_plane(settings) as opened:
        yield opened


Browser = Callable[[], TestClient]


@pytest.fixture
def browser(plane: Plane) -> Iterator[Browser]:
    opened: list[TestClient] = []
    with app.sign_in_of(plane) as sign_in:
        door = create_app(plane, all_routers(plane, sign_in=sign_in))

        def new() -> TestClient:
            opened.append(TestClient(door, base_url=BASE, raise_server_exceptions=False, follow_redirects=False))
            return opened[-1]

        yield new
    for one in opened:
        one.close()


def asked_for(client: TestClient) -> str:
    """Where the browser is sent to."""
    answer = client.get("/session/sign-in")
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def came_back(client: TestClient) -> str:
    """Where the provider sends the browser back to, after a person's consent."""
    back = httpx.get(asked_for(client), trust_env=False).headers["location"]
    assert back.startswith(f"{BASE}/session/callback?")
    return str(back)


def test_a_person_signs_in_works_and_signs_out(plane: Plane, provider: Provider, browser: Browser) -> None:
    client = browser()
    assert 'href="/session/sign-in"' in client.get("/session").text
    back = came_back(client)
    answer = client.get(back)
    assert (answer.status_code, answer.headers["location"]) == (303, "/session")
    kept = next(line for line in answer.headers.get_list("set-cookie") if line.startswith("dayzero-token="))
    assert "HttpOnly" in kept and "SameSite=lax" in kept and "expires=" in kept and "Secure" not in kept
    shown = client.get("/session").text
    assert "You are signed in as" in shown and "Ada" in shown and "<strong>write</strong>" in shown
    began = plane.access.trail()[0]
    assert (began.action, began.subject) == ("session.begin", f"{provider.url} u-1") and "write for Ada" in began.detail
    text = client.cookies["dayzero-token"]
    assert text.startswith("dzs_") and plane.access.check(text) is not None
    guard = shown.split('name="guard" value="')[1].split('"')[0]
    assert client.post("/session/end", data={"guard": "wrong"}).status_code == 403
    client.cookies.set("dayzero-token", text)
    assert client.post("/session/end", data={"guard": guard}).status_code == 303
    assert plane.access.check(text) is None, "the session is over here, not in the browser alone"
    assert plane.access.trail()[0].action == "session.end" and plane.access.trail()[0].who == began.who
    assert provider.asked.count("/.well-known/openid-configuration") == 1


def test_the_request_carries_state_nonce_and_challenge(browser: Browser) -> None:
    first, second = (parse_qs(urlsplit(asked_for(browser())).query) for _ in range(2))
    assert first["scope"] == ["openid profile"] and first["redirect_uri"] == [f"{BASE}/session/callback"]
    for name in ("state", "nonce", "code_challenge"):
        assert len(first[name][0]) >= 43 and first[name] != second[name]


WRONG_TOKENS = (
    ("nonce", "wrong nonce"),
    ("audience", "wrong aud"),
    ("audiences", "another client"),
    ("azp", "another client"),
    ("issuer", "wrong iss"),
    ("expired", "expired"),
    ("exp text", "wrong exp"),
    ("future", "wrong iat"),
    ("nbf", "wrong nbf"),
    ("none", "not signed as it must be"),
    ("shared secret", "not signed as it must be"),
    ("unknown key", "not signed as it must be"),
    ("stolen name", "not signed as it must be"),
    ("changed", "not signed as it must be"),
    ("no sub", "lacks sub"),
    ("no exp", "lacks exp"),
    ("no iat", "lacks iat"),
    ("no aud", "lacks aud"),
    ("no nonce", "lacks nonce"),
)


def test_a_token_that_does_not_hold_opens_nothing(plane: Plane, provider: Provider, browser: Browser) -> None:
    for trick, says in WRONG_TOKENS:
        provider.trick = trick
        client = browser()
        answer = client.get(came_back(client))
        assert answer.status_code == 422 and says in answer.text, trick
        assert "dayzero-token" not in client.cookies and "/session/sign-in" in answer.text
        refused = plane.access.trail()[0]
        assert refused.action == "session.refuse" and says in refused.detail, trick
    assert plane.access.tokens() == ()


def test_a_state_counts_once_and_in_its_own_browser(plane: Plane, provider: Provider, browser: Browser) -> None:
    provider.once = False
    client, other = browser(), browser()
    back = came_back(client)
    kept = client.cookies["dayzero-sign-in"]
    asked_for(other)
    assert "another sign-in" in other.get(back).text, "somebody else's answer, brought to this browser"
    assert "not begun here" in browser().get(back).text
    assert client.get(back).status_code == 303
    client.cookies.set("dayzero-sign-in", kept, path="/session")
    again = client.get(back)
    assert again.status_code == 422 and "used before" in again.text
    forged = browser()
    forged.cookies.set("dayzero-sign-in", kept[:-4] + "AAA=", path="/session")
    assert forged.get(back).status_code == 422
    assert len([one for one in plane.access.trail() if one.action == "session.begin"]) == 1


def test_an_answer_that_is_not_the_providers(provider: Provider, browser: Browser) -> None:
    client = browser()
    back = came_back(client)
    assert "another provider" in client.get(back.replace("iss=", "iss=x")).text
    client = browser()
    state = parse_qs(urlsplit(asked_for(client)).query)["state"][0]
    said = client.get("/session/callback", params={"state": state, "error": "access_denied<script>"})
    assert said.status_code == 422 and "access_denied&lt;script" in said.text
    client = browser()
    state = parse_qs(urlsplit(asked_for(client)).query)["state"][0]
    assert "invalid_grant" in client.get("/session/callback", params={"state": state, "code": "made-up"}).text
    assert client.get("/session/callback", params={"state": "x" * 5000}).status_code == 422


@pytest.mark.parametrize(
    ("trick", "status", "says"),
    [
        ("down", 503, "answered 503"),
        ("flood", 503, "answers more than"),
        ("redirects", 503, "answered 302"),
        ("other issuer", 422, "says that its name is"),
        ("elsewhere", 422, "may be contacted"),
        ("no pkce", 503, "PKCE"),
    ],
)
def test_a_provider_that_cannot_be_used(provider: Provider, browser: Browser, trick: str, status: int, says: str) -> None:
    provider.trick = trick
    client = browser()
    answer = client.get("/session/sign-in")
    assert answer.status_code == status and says in answer.text
    assert 'name="token"' in answer.text, "tokens go on"
    assert provider.asked == ["/.well-known/openid-configuration"]
    provider.trick = ""
    assert client.get(came_back(client)).status_code == 303, "it is asked again"


def test_a_provider_that_goes_down_meanwhile(plane: Plane, provider: Provider, browser: Browser) -> None:
    client = browser()
    back = came_back(client)
    provider.trick = "down"
    answer = client.get(back)
    assert answer.status_code == 503 and "dayzero-token" not in client.cookies
    assert plane.access.trail()[0].action == "session.refuse"


def test_a_new_key_is_asked_for_once(provider: Provider, browser: Browser) -> None:
    client = browser()
    assert client.get(came_back(client)).status_code == 303
    provider.keys.append(RSAKey.generate_key(2048, {"kid": "new", "use": "sig"}))
    assert client.get(came_back(client)).status_code == 422, "keys were asked for less than a minute ago"
    assert provider.asked.count("/keys") == 1


def test_who_is_in_no_group_may_do_nothing(plane: Plane, provider: Provider, browser: Browser) -> None:
    for claims in ({"groups": ["sales"]}, {"groups": "sales"}, {"groups": {"all": 1}}, {}, {"groups": [None, 7, ["all"]]}):
        provider.claims = {"sub": "u-2", "name": "Eve", **claims}
        client = browser()
        answer = client.get(came_back(client))
        assert answer.status_code == 422 and "in no group" in answer.text
    assert plane.access.tokens() == ()
    provider.claims = {"sub": "u-2", "groups": "all"}
    assert browser_scope(browser(), plane) is Scope.READ


def browser_scope(client: TestClient, plane: Plane) -> Scope:
    assert client.get(came_back(client)).status_code == 303
    token = plane.access.check(client.cookies["dayzero-token"])
    assert token is not None
    return token.scope


def test_a_person_stays_one_token_whose_scope_follows_the_groups(plane: Plane, provider: Provider, browser: Browser) -> None:
    first, second = browser(), browser()
    assert browser_scope(first, plane) is Scope.WRITE
    provider.claims["groups"] = ["all"]
    assert browser_scope(second, plane) is Scope.READ
    tokens = [plane.access.check(one.cookies["dayzero-token"]) for one in (first, second)]
    assert len({one.id for one in tokens if one is not None}) == 1
    assert tokens[0] is not None and tokens[0].scope is Scope.READ, "sessions of before have no more"
    plane.access.revoke(plane.access.tokens()[0].id)
    assert [plane.access.check(one.cookies["dayzero-token"]) for one in (first, second)] == [None, None]
    third = browser()
    assert third.get(came_back(third)).status_code == 423


def test_two_first_sign_ins_at_once_make_one_person(plane: Plane) -> None:
    ada = Identity("https://idp.test", "u-1", "Ada", ())
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: plane.sessions.begin(ada, Scope.READ, 60.0), range(8)))
    assert len({token.id for _, token in made}) == 1 == len(plane.access.tokens())
    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(lambda _: plane.sessions.spend("state", 60.0), range(8))) == [False] * 7 + [True]


def test_other_claims_secrets_and_clients(database_url: str, tmp_path: Path, provider: Provider) -> None:
    provider.trick = "post"
    provider.claims = {"sub": "u-1", "realm_access": {"roles": ["boss"]}, "email": "ada@x.test", "email_verified": False}
    for claim, scopes, wanted in (
        ("realm_access.roles", {"boss": "admin"}, Scope.ADMIN),
        ("email", {"ada@x.test": "admin"}, None),
        ("email", {"*": "read"}, Scope.READ),
    ):
        given = configured(provider, oidc_groups_claim=claim, oidc_scopes=scopes, public_url="https://list.test")
        settings = Settings(database_url=SecretStr(database_url), data_dir=tmp_path / "data", **given)  # type: ignore[arg-type]
        with app.control_plane(settings) as plane, app.sign_in_of(plane) as sign_in:
            client = TestClient(create_app(plane, all_routers(plane, sign_in=sign_in)), base_url="https://list.test")
            client.follow_redirects = False
            back = httpx.get(client.get("/session/sign-in").headers["location"], trust_env=False).headers["location"]
            answer = client.get(back)
            client.close()
            cookies = answer.headers.get_list("set-cookie")
            assert all("Secure" in line for line in cookies)
            text = next((line.split("=")[1].split(";")[0] for line in cookies if line.startswith("dayzero-token=")), "")
            found = plane.access.check(text)
            assert (None if found is None else found.scope) is wanted


def test_settings_that_cannot_work_say_so(database_url: str, tmp_path: Path, provider: Provider) -> None:
    for more, says in (
        ({"oidc_client_id": None}, "client's id"),
        ({"oidc_issuer": "http://idp.test"}, "only https"),
        ({"oidc_issuer": "https://idp.test:x"}, "no address"),
        ({"oidc_origins": ("ftp://x.test",)}, "only https"),
        ({"public_url": "http://list.test"}, "without https"),
    ):
        given = configured(provider, **more)  # type: ignore[arg-type]
        settings = Settings(database_url=SecretStr(database_url), data_dir=tmp_path / "data", **given)  # type: ignore[arg-type]
        with (
            app.control_plane(settings) as plane,
            pytest.raises(BadInputError, match=says),
            app.sign_in_of(plane),
        ):
            raise AssertionError(json.dumps(str(more)))
    assert provider.asked == []


def test_nobody_signs_in_where_no_provider_is_named(database_url: str, tmp_path: Path) -> None:
    with (
        app.control_plane(Settings(database_url=SecretStr(database_url), data_dir=tmp_path / "data")) as plane,
        app.sign_in_of(plane) as sign_in,
    ):
        assert sign_in is None
        with TestClient(create_app(plane, all_routers(plane, sign_in=sign_in))) as client:
            assert "Sign in</a>" not in client.get("/session").text
            assert client.get("/session/sign-in").status_code == 404
