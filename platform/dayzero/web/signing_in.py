"""Signing in at the operator's provider: out to it, and back with a session in a cookie."""

from typing import Annotated

from fastapi import APIRouter, Cookie, Query
from fastapi.responses import RedirectResponse, Response

from dayzero.adapters.remote.wire import STATUS
from dayzero.errors import DayzeroError
from dayzero.steps import signing_in
from dayzero.steps.signing_in import Returned, SignIn
from dayzero.web.session import session_page
from dayzero.web.viewers import COOKIE

PENDING_COOKIE = "dayzero-sign-in"
BEGIN_PATH = "/session/sign-in"
CALLBACK_PATH = "/session/callback"
_SEE_OTHER = 303
Text = Annotated[str, Query(max_length=4000)]


def signing_in_router(doors: SignIn) -> APIRouter:
    """`/session/sign-in` and `/session/callback`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get(BEGIN_PATH)
    def begin() -> Response:
        try:
            url, kept = signing_in.begin(doors)
        except DayzeroError as error:
            return _refused(error)
        answer = RedirectResponse(url, _SEE_OTHER, headers={"cache-control": "no-store"})
        # Lax: the provider sends the browser back from another site.
        answer.set_cookie(
            PENDING_COOKIE, kept, signing_in.WITHIN_S, path="/session", httponly=True, samesite="lax", secure=doors.secure
        )
        return answer

    @routes.get(CALLBACK_PATH)
    def callback(
        state: Text = "",
        code: Text = "",
        error: Text = "",
        iss: Annotated[str | None, Query(max_length=4000)] = None,
        kept: Annotated[str, Cookie(alias=PENDING_COOKIE)] = "",
    ) -> Response:
        answer: Response
        try:
            text, token = signing_in.finish(doors, kept, Returned(state, code, error, iss))
        except DayzeroError as refusal:
            answer = _refused(refusal)
        else:
            answer = RedirectResponse("/session", _SEE_OTHER)
            answer.set_cookie(COOKIE, text, expires=token.expires_at, httponly=True, samesite="lax", secure=doors.secure)
        answer.headers["cache-control"] = "no-store"
        answer.delete_cookie(PENDING_COOKIE, path="/session", httponly=True, samesite="lax", secure=doors.secure)
        return answer

    return routes


def _refused(error: DayzeroError) -> Response:
    status = STATUS[next(kind for kind in type(error).__mro__ if kind in STATUS)]
    problem = f"You are not signed in: {error}"
    return session_page(status=status, problem=problem, sign_in=True)
