"""A token kept by a browser, so that people need not send headers: the cookie, the form, and what guards its forms."""

import hashlib
import hmac
from urllib.parse import parse_qs, urlsplit

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from dayzero.domain.access import SESSION_PREFIX, AccessToken, Scope
from dayzero.ports.access import Access
from dayzero.steps import signing_in
from dayzero.steps.signing_in import SignIn
from dayzero.web.frame import page
from dayzero.web.ledger import limited_body
from dayzero.web.shown_tokens import mark_token
from dayzero.web.viewers import COOKIE, HTTP_FORBIDDEN

_FORM_BYTES = 20_000
_SEE_OTHER = 303


def guard_of(request: Request) -> str | None:
    """What a form of this browser must carry; None without a token kept here."""
    token = request.cookies.get(COOKIE)
    return None if not token else hmac.new(token.encode(), b"dayzero form", hashlib.sha256).hexdigest()


async def guarded_form(request: Request) -> dict[str, str]:
    """The fields of a form that one of our own pages sent; 403 for one from elsewhere."""
    fields = await form_of(request)
    guard = guard_of(request)
    if guard is None or not hmac.compare_digest(fields.get("guard", "").encode(), guard.encode()):
        raise HTTPException(HTTP_FORBIDDEN, "this form was not sent by a page of yours here; open the page again and repeat.")
    return fields


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a posted form, each once."""
    body = await limited_body(request, _FORM_BYTES)
    return {key: values[-1] for key, values in parse_qs(body.decode("utf-8", "replace"), max_num_fields=20).items()}


def session_router(access: Access, sign_in: SignIn | None = None) -> APIRouter:
    """`/session`: give a token or sign in, see what you may do, end it."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/session")
    def session(request: Request) -> HTMLResponse:
        return _shown(request, access, None, sign_in=sign_in is not None)

    @routes.post("/session")
    async def begin(request: Request) -> Response:
        _same_site(request)
        token = (await form_of(request)).get("token", "").strip()
        found = access.check(token) if token else None
        if found is None or found.scope is Scope.WORKER:
            mark_token(request, good=False)
            problem = "This token is unknown, revoked, has expired, or is a worker's."
            return _shown(request, access, problem, 422, sign_in=sign_in is not None)
        answer = RedirectResponse("/session", _SEE_OTHER)
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure, expires=found.expires_at)
        return answer

    @routes.post("/session/end")
    async def end(request: Request) -> RedirectResponse:
        await guarded_form(request)
        if sign_in is not None:
            await run_in_threadpool(signing_in.end, sign_in, request.cookies[COOKIE])
        answer = RedirectResponse("/session", _SEE_OTHER)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer

    return routes


def holder(request: Request, access: Access) -> AccessToken | None:
    """The token that this browser keeps, while it is good."""
    token = request.cookies.get(COOKIE)
    found = access.check(token) if token else None
    if found is not None:
        mark_token(request, good=True)
    return found


def session_page(
    token: AccessToken | None = None,
    guard: str | None = None,
    *,
    status: int = 200,
    problem: str | None = None,
    sign_in: bool = False,
    signed_in: bool = False,
) -> HTMLResponse:
    """The page: what the browser holds, or how it gets something; `sign_in`: whether people can, `signed_in`: has done so."""
    return page(
        "session.html",
        title="Your session" if signed_in and token else "Your token",
        here="/session",
        problem=problem,
        status=status,
        token=token,
        guard=guard,
        sign_in=sign_in,
        signed_in=signed_in,
    )


def _same_site(request: Request) -> None:
    """Refuse a form that another site sends, as far as browsers tell."""
    origin = request.headers.get("origin")
    elsewhere = origin is not None and origin != "null" and urlsplit(origin).netloc != request.headers.get("host")
    if elsewhere or request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise HTTPException(HTTP_FORBIDDEN, "a token is given on this site's own page.")


def _shown(request: Request, access: Access, problem: str | None, status: int = 200, *, sign_in: bool = False) -> HTMLResponse:
    found = holder(request, access)
    guard = guard_of(request)
    signed_in = (request.cookies.get(COOKIE) or "").startswith(SESSION_PREFIX)
    return session_page(found, guard, status=status, problem=problem, sign_in=sign_in, signed_in=signed_in)
