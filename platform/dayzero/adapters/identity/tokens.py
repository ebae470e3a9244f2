"""ID tokens: signed by a key of the provider, for us, now, and for this very sign-in; or an error that says what is wrong."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from joserfc import jwt
from joserfc.errors import ClaimError, ExpiredTokenError, JoseError, MissingClaimError
from joserfc.jwk import KeySet

from dayzero.adapters.identity.answers import Json
from dayzero.domain.signing_in import Identity
from dayzero.errors import BadInputError, UnavailableError
from dayzero.ports.running import Clock

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519")
"""What a provider signs with: keys of which we hold the public half alone, so neither `none` nor a shared secret."""

LEEWAY_S = 60
KEYS_AGAIN_S = 60.0
MOST_GROUPS = 1000
_NAMES = ("name", "preferred_username", "email", "sub")
_LONGEST_BYTES = 64 * 1024
_AGAIN = "Sign in again; if it stays so, the provider's settings for this client are wrong."


@dataclass(frozen=True, slots=True)
class Expected:
    """What the claims of a token must say."""

    issuer: str
    client_id: str
    nonce: str
    groups_claim: str


class IdTokens:
    """Checks ID tokens. A key that is not known is asked for once more, at most once a minute."""

    def __init__(self, clock: Clock, ask: Callable[[], Json]) -> None:
        self._clock = clock
        self._ask = ask
        self._lock = threading.Lock()
        self._keys: KeySet | None = None
        self._asked_s = 0.0

    def identity(self, text: str, expected: Expected) -> Identity:
        """Whom the token is about. BadInputError."""
        claims = self._claims(text, expected)
        names = [claims[key] for key in _NAMES if _is_text(claims.get(key))]
        return Identity(expected.issuer, claims["sub"], names[0], _groups(claims, expected.groups_claim))

    def _claims(self, text: str, expected: Expected) -> dict[str, Any]:
        if len(text) > _LONGEST_BYTES:
            raise _bad(f"has {len(text)} characters")
        try:
            claims = self._decoded(text)
            self._registry(expected).validate(claims)
        except ExpiredTokenError as error:
            raise _bad("has expired; if not, the clocks differ") from error
        except MissingClaimError as error:
            raise _bad(f"lacks {error.claim}") from error
        except ClaimError as error:
            raise _bad(f"has a wrong {error.claim}") from error
        except (JoseError, ValueError) as error:
            raise _bad(f"is not signed as it must be ({type(error).__name__})") from error
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", None if several else expected.client_id) != expected.client_id:
            raise _bad("was issued to another client")
        return claims

    def _registry(self, expected: Expected) -> jwt.JWTClaimsRegistry:
        return jwt.JWTClaimsRegistry(
            now=int(self._clock.now().timestamp()),
            leeway=LEEWAY_S,
            iss={"essential": True, "value": expected.issuer},
            aud={"essential": True, "value": expected.client_id},
            nonce={"essential": True, "value": expected.nonce},
            sub={"essential": True},
            exp={"essential": True},
            iat={"essential": True},
        )

    def _decoded(self, text: str) -> dict[str, Any]:
        with self._lock:
            known, fresh = self._keys, False
            if known is None:
                known, fresh = self._asked(), True
        try:
            return dict(jwt.decode(text, known, algorithms=ALGORITHMS).claims)
        except (JoseError, ValueError):
            with self._lock:
                if fresh or self._clock.monotonic_s() - self._asked_s < KEYS_AGAIN_S:
                    raise
                known = self._asked()
        return dict(jwt.decode(text, known, algorithms=ALGORITHMS).claims)

    def _asked(self) -> KeySet:
        found = self._ask()
        self._asked_s = self._clock.monotonic_s()
        listed = found.get("keys")
        keys = [one for one in listed if _signs(one)] if isinstance(listed, list) else []
        try:
            self._keys = KeySet.import_key_set({"keys": keys})
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise UnavailableError("the provider's keys cannot be read.") from error
        return self._keys


def _signs(key: object) -> bool:
    """Whether it is a public key to check signatures with; what else a provider lists is left out."""
    return isinstance(key, dict) and key.get("kty") in ("RSA", "EC", "OKP") and key.get("use", "sig") == "sig"


def _groups(claims: dict[str, Any], path: str) -> tuple[str, ...]:
    """The groups under a claim, or under a path of claims (`realm_access.roles`)."""
    found: Any = claims.get(path)
    if found is None:
        found = claims
        for part in path.split("."):
            found = found.get(part) if isinstance(found, dict) else None
    if path == "email" and claims.get("email_verified") is not True:
        return ()
    listed = found if isinstance(found, list) else [found]
    return tuple(one for one in listed if _is_text(one))[:MOST_GROUPS]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _bad(why: str) -> BadInputError:
    return BadInputError(f"the provider's ID token {why}.", remedy=_AGAIN)
