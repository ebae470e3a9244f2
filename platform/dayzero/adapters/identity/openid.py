"""OpenID Connect: the authorization code flow with PKCE, state and nonce (OpenID Connect Core 1.0, RFC 7636)."""

import base64
import hashlib
import secrets
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from dayzero.adapters.identity.answers import Json, Origins, Web, text_in
from dayzero.adapters.identity.tokens import Expected, IdTokens
from dayzero.domain.signing_in import Identity, Pending
from dayzero.errors import BadInputError, UnavailableError
from dayzero.ports.running import Clock

WELL_KNOWN = "/.well-known/openid-configuration"
KEPT_S = 3600.0
_SECRET_BYTES = 32
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")


@dataclass(frozen=True, slots=True)
class OpenIdSettings:
    """Who the provider is, and who we are there. `origins`: further addresses that it may use."""

    issuer: str
    client_id: str
    client_secret: str | None
    redirect_url: str
    ask_for: tuple[str, ...] = ("openid", "profile")
    groups_claim: str = "groups"
    origins: tuple[str, ...] = ()


class OpenIdProvider:
    """ports.access.IdentityProvider; only the origins that the settings name are ever contacted, or browsers sent to."""

    def __init__(self, settings: OpenIdSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._web = Web(Origins((settings.issuer, *settings.origins)))
        self._known: tuple[float, Json] | None = None
        self._tokens = IdTokens(clock, self._keys)

    @property
    def issuer(self) -> str:
        """Its name."""
        return self._settings.issuer

    def close(self) -> None:
        """Close the connections."""
        self._web.close()

    def begin(self) -> tuple[str, Pending]:
        """The address to send a browser to, and what to keep meanwhile. UnavailableError, BadInputError: it cannot be used."""
        url = text_in(self._discovered(), "authorization_endpoint")
        pending = Pending(*(secrets.token_urlsafe(_SECRET_BYTES) for _ in range(3)))
        asked = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._settings.redirect_url,
            "scope": " ".join(dict.fromkeys(("openid", *self._settings.ask_for))),
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": challenge_of(pending.verifier),
            "code_challenge_method": "S256",
        }
        return f"{url}{'&' if '?' in url else '?'}{urlencode(asked)}", pending

    def finish(self, pending: Pending, code: str) -> Identity:
        """Who came back with the code. BadInputError: what it says does not hold, and why. UnavailableError: it is down."""
        expected = Expected(self._settings.issuer, self._settings.client_id, pending.nonce, self._settings.groups_claim)
        return self._tokens.identity(self._redeemed(pending, code), expected)

    def _redeemed(self, pending: Pending, code: str) -> str:
        """The ID token for the code."""
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._settings.redirect_url,
            "code_verifier": pending.verifier,
        }
        found = self._discovered()
        ours, secret = self._settings.client_id, self._settings.client_secret
        headers = {}
        methods = found.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        if secret is None:
            fields["client_id"] = ours
        elif isinstance(methods, list) and "client_secret_basic" not in methods and "client_secret_post" in methods:
            fields |= {"client_id": ours, "client_secret": secret}
        else:
            pair = f"{quote(ours, safe='')}:{quote(secret, safe='')}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        answer = self._web.post(text_in(found, "token_endpoint"), fields, headers)
        return text_in(answer, "id_token")

    def _discovered(self) -> Json:
        now = self._clock.monotonic_s()
        if self._known is None or now - self._known[0] > KEPT_S:
            self._known = (now, self._discover())
        return self._known[1]

    def _discover(self) -> Json:
        found = self._web.get(self._settings.issuer.rstrip("/") + WELL_KNOWN)
        if found.get("issuer") != self._settings.issuer:
            raise BadInputError(
                f"{self._settings.issuer} says that its name is {str(found.get('issuer'))[:200]!r}.",
                remedy="Set DAYZERO_OIDC_ISSUER to the name as the provider writes it.",
            )
        for name in _ENDPOINTS:
            self._web.origins.demand(text_in(found, name), name)
        methods = found.get("code_challenge_methods_supported")
        if isinstance(methods, list) and "S256" not in methods:
            raise UnavailableError(f"{self._settings.issuer} does not take PKCE with S256, which sign-in here needs.")
        return found

    def _keys(self) -> Json:
        return self._web.get(text_in(self._discovered(), "jwks_uri"))


def challenge_of(verifier: str) -> str:
    """What the provider is shown of the verifier (S256)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
