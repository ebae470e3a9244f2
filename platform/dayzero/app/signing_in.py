"""Signing in at a provider, where the settings name one."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from dayzero.adapters.identity.answers import is_loopback
from dayzero.adapters.identity.openid import OpenIdProvider, OpenIdSettings
from dayzero.adapters.vault.seals import FernetSeals
from dayzero.app.planes import Plane, public_url_of
from dayzero.domain.access import Scope
from dayzero.errors import BadInputError
from dayzero.settings import Settings
from dayzero.steps.signing_in import SignIn

CALLBACK_PATH = "/session/callback"


@contextmanager
def sign_in_of(plane: Plane) -> Iterator[SignIn | None]:
    """What signing in needs; None where no provider is named. BadInputError: settings that cannot work. Nobody is contacted."""
    settings = plane.settings
    if settings.oidc_issuer is None:
        yield None
        return
    public_url = public_url_of(settings)
    secure = _secure(public_url)
    provider = OpenIdProvider(_client(settings, public_url), plane.clock)
    try:
        yield SignIn(
            provider=provider,
            sessions=plane.sessions,
            access=plane.access,
            seals=FernetSeals(settings.data_dir / "keys" / "sign-in.key"),
            scopes={group: Scope(scope) for group, scope in settings.oidc_scopes.items()},
            session_s=settings.oidc_session_s,
            secure=secure,
        )
    finally:
        provider.close()


def _client(settings: Settings, public_url: str) -> OpenIdSettings:
    assert settings.oidc_issuer is not None
    if not settings.oidc_client_id:
        raise BadInputError("signing in needs the client's id at the provider.", remedy="Set DAYZERO_OIDC_CLIENT_ID.")
    secret = settings.oidc_client_secret
    return OpenIdSettings(
        issuer=settings.oidc_issuer,
        client_id=settings.oidc_client_id,
        client_secret=None if secret is None else secret.get_secret_value(),
        redirect_url=public_url + CALLBACK_PATH,
        ask_for=settings.oidc_ask_for,
        groups_claim=settings.oidc_groups_claim,
        origins=settings.oidc_origins,
    )


def _secure(public_url: str) -> bool:
    """Whether cookies travel over https alone: everywhere but on loopback, and nothing else will do elsewhere."""
    parts = urlsplit(public_url)
    if parts.scheme == "https":
        return True
    if is_loopback(parts.hostname or ""):
        return False
    raise BadInputError(
        f"people cannot sign in at {public_url}: a session must not travel without https.",
        remedy="Put the door behind https and name it in DAYZERO_PUBLIC_URL, or unset DAYZERO_OIDC_ISSUER.",
    )
