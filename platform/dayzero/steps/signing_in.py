"""Signing in: begun here, decided by a provider, ended here with a session or the reason why there is none."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from dayzero.domain.access import AccessToken, Scope
from dayzero.domain.signing_in import Identity
from dayzero.errors import BadInputError, DayzeroError
from dayzero.ports.access import Access, IdentityProvider, Seals, Sessions
from dayzero.stages.signing.scopes import scope_of

WITHIN_S = 600
_NOBODY = "nobody"
_SHOWN_GROUPS = 20


@dataclass(frozen=True, slots=True)
class SignIn:
    """What signing in needs; `secure`: whether cookies travel over https alone."""

    provider: IdentityProvider
    sessions: Sessions
    access: Access
    seals: Seals
    scopes: Mapping[str, Scope]
    session_s: float
    secure: bool


@dataclass(frozen=True, slots=True)
class Returned:
    """What a browser brought back from the provider."""

    state: str
    code: str
    error: str = ""
    issuer: str | None = None


def begin(doors: SignIn) -> tuple[str, str]:
    """Where to send the browser, and what it keeps meanwhile."""
    url, pending = doors.provider.begin()
    return url, doors.seals.seal(pending)


def finish(doors: SignIn, kept: str, returned: Returned) -> tuple[str, AccessToken]:
    """A session for whoever came back. BadInputError: why there is none; it stands in the trail once the sign-in was ours."""
    pending = doors.seals.opened(kept, WITHIN_S)
    if not hmac.compare_digest(pending.state.encode(), returned.state.encode("utf-8", "surrogatepass")):
        raise BadInputError("this answer belongs to another sign-in.", remedy="Sign in again.")
    if not doors.sessions.spend(pending.state, WITHIN_S):
        raise BadInputError("this sign-in was used before.", remedy="Sign in again.")
    try:
        if returned.error:
            raise BadInputError(f"the provider says: {returned.error[:300]}.", remedy="Sign in again.")
        if returned.issuer is not None and returned.issuer != doors.provider.issuer:
            raise BadInputError("the answer came from another provider.", remedy="Sign in again.")
        return _begun(doors, doors.provider.finish(pending, returned.code))
    except DayzeroError as error:
        doors.access.record(_NOBODY, "session.refuse", doors.provider.issuer, error.message)
        raise


def end(doors: SignIn, text: str) -> None:
    """Sign out."""
    ended = doors.sessions.end(text)
    if ended is not None:
        doors.access.record(ended.id, "session.end", ended.name)


def _begun(doors: SignIn, identity: Identity) -> tuple[str, AccessToken]:
    scope = scope_of(identity.groups, doors.scopes)
    if scope is None:
        shown = ", ".join(identity.groups[:_SHOWN_GROUPS]) or "none"
        raise BadInputError(
            f"{identity.name} ({identity.subject}) is in no group that may do anything here; groups: {shown}",
            remedy="Ask whoever runs this server: DAYZERO_OIDC_SCOPES says which groups may.",
        )
    text, token = doors.sessions.begin(identity, scope, doors.session_s)
    doors.access.record(
        token.id, "session.begin", f"{identity.issuer} {identity.subject}", f"{scope.value} for {identity.name}"
    )
    return text, token
