"""Through whose eyes a request reads, and whether it may write: from its bearer token."""

from collections.abc import Callable

from fastapi import HTTPException, Request

from dayzero.domain.access import ANYONE, AccessToken, Scope, Viewer
from dayzero.ports.access import Access
from dayzero.web.shown_tokens import mark_token

COOKIE = "dayzero-token"
"""Where a browser keeps a token that was given on our own page."""

HTTP_UNAUTHORIZED = 401
HTTP_FORBIDDEN = 403


def token_of(request: Request, access: Access) -> AccessToken | None:
    """The request's token; None when it shows none, and 401 for one that is unknown, revoked or has expired."""
    header = request.headers.get("Authorization")
    if header is None:
        # A cookie serves reading alone (forms have a guard), and counts for nothing once its token is over.
        kept = request.cookies.get(COOKIE)
        known = access.check(kept) if kept and request.method in ("GET", "HEAD") else None
        if known is not None:
            mark_token(request, good=True)
        return known
    kind, _, text = header.partition(" ")
    found = access.check(text.strip()) if kind.lower() == "bearer" and text.strip() else None
    mark_token(request, good=found is not None)
    if found is None:
        raise HTTPException(HTTP_UNAUTHORIZED, "this token is unknown, revoked or has expired.", {"WWW-Authenticate": "Bearer"})
    return found


def viewer_from(access: Access, *, open_reading: bool = True) -> Callable[[Request], Viewer]:
    """A dependency: the viewer of a request. Where reading is not open, 401 without a token that may read."""

    def viewer(request: Request) -> Viewer:
        token = token_of(request, access)
        if token is None:
            if not open_reading:
                raise HTTPException(
                    HTTP_UNAUTHORIZED, "reading here needs a token with scope read.", {"WWW-Authenticate": "Bearer"}
                )
            return ANYONE
        if not token.scope.allows(Scope.READ):
            raise HTTPException(HTTP_FORBIDDEN, f"a token with scope {token.scope.value} may not read.")
        return Viewer(token.id)

    return viewer


def demand(access: Access, wanted: Scope) -> Callable[[Request], AccessToken]:
    """A dependency: the token of a request that may do what needs this scope; 401 without one, 403 for a lesser one."""

    def check(request: Request) -> AccessToken:
        token = token_of(request, access)
        if token is None:
            raise HTTPException(
                HTTP_UNAUTHORIZED, f"this needs a token with scope {wanted.value}.", {"WWW-Authenticate": "Bearer"}
            )
        if not token.scope.allows(wanted):
            raise HTTPException(
                HTTP_FORBIDDEN, f"a token with scope {token.scope.value} may not do what needs scope {wanted.value}."
            )
        return token

    return check
