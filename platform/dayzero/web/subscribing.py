"""Subscriptions over HTTP: for programs under /v1/subscriptions, for people on /subscribe, for whoever is reached by links."""

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, Protocol

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from dayzero.domain.access import AccessToken, Scope
from dayzero.domain.canonical import Json
from dayzero.domain.columns import EVENT_COLUMNS
from dayzero.domain.subscriptions import Channel, Manner
from dayzero.errors import BadInputError, DayzeroError
from dayzero.ports.access import Access
from dayzero.stages.telling.quiet import read_quiet
from dayzero.stages.telling.showing import shown_subscription
from dayzero.steps import subscribing
from dayzero.steps.subscribing import Asked, Doors
from dayzero.web import api_shapes as shapes
from dayzero.web.frame import page
from dayzero.web.session import form_of, guard_of, guarded_form, holder
from dayzero.web.viewers import HTTP_FORBIDDEN, demand

SCHEMA = "dayzero.subscriptions/1"
MINUTE_S = 60
_CREATED = 201
_BLANK = {"target": "", "filter": "", "digest_minutes": "", "quiet": ""}
_SEE_OTHER = 303
_REFUSED = shapes.answers(401, 403, 422, 503)
_NAMED = shapes.answers(401, 403, 404, 422, 503)
LinkToken = Annotated[str, Query(max_length=1000, description="What the link carries.")]
_LISTED: dict[int | str, dict[str, Any]] = {200: {"model": shapes.Subscriptions, "description": "Subscriptions."}}


class Telling(Protocol):
    """What subscribing over HTTP needs of the control plane."""

    @property
    def access(self) -> Access:
        """Who the tokens are."""
        ...

    @property
    def doors(self) -> Doors:
        """What subscribing needs."""
        ...


class Wanted(BaseModel):
    """A subscription that is asked for."""

    model_config = ConfigDict(extra="forbid")

    target: str = Field(max_length=1024, description="https://host/path, or an Apprise URL for chat and mail.")
    filter: str = Field("", max_length=4000, description="A predicate over the fields of events.")
    channel: Literal["webhook", "apprise"] | None = Field(None, description="Default: webhook for http(s), else apprise.")
    digest_minutes: int | None = Field(None, ge=1, le=7 * 24 * 60, description="One message in so many minutes.")
    quiet: str | None = Field(None, max_length=100, description="Hours without messages: 22:00-07:00 Europe/Berlin.")


def subscribing_router(plane: Telling, new_secret: Callable[[], str]) -> APIRouter:
    """The API, the page, and where links lead to."""
    routes = APIRouter()
    _add_api(routes, plane, new_secret)
    _add_page(routes, plane, new_secret)
    _add_links(routes, plane)
    return routes


def _asked(wanted: Wanted, new_secret: Callable[[], str]) -> Asked:
    web = re.match(r"https?://", wanted.target, re.IGNORECASE) is not None
    channel = Channel(wanted.channel) if wanted.channel else Channel.WEBHOOK if web else Channel.APPRISE
    every_s = None if wanted.digest_minutes is None else wanted.digest_minutes * MINUTE_S
    manner = Manner(every_s, read_quiet(wanted.quiet) if wanted.quiet else None)
    return Asked(channel, wanted.target, wanted.filter, manner, new_secret() if channel is Channel.WEBHOOK else None)


def _add_api(routes: APIRouter, plane: Telling, new_secret: Callable[[], str]) -> None:
    writing = Depends(demand(plane.access, Scope.WRITE))
    created: dict[int | str, dict[str, Any]] = {
        201: {"model": shapes.Subscriptions, "description": "Made; it waits for its confirmation."}
    }

    @routes.get("/v1/subscriptions", responses=_REFUSED | _LISTED, tags=["events"])
    def listed(token: AccessToken = writing) -> Response:
        """The token's subscriptions; an administrator's are all."""
        return _answer(_rows(plane, token))

    @routes.post("/v1/subscriptions", status_code=_CREATED, responses=_REFUSED | created, tags=["events"])
    def add(wanted: Wanted, token: AccessToken = writing) -> Response:
        """Subscribe. A webhook's secret is in this answer only; nothing is sent before the link that goes there is followed."""
        made = subscribing.ask(plane.doors, token, _asked(wanted, new_secret))
        row = {**shown_subscription(made.subscription), "secret": made.subscription.secret, "problem": made.problem}
        return _answer([row], _CREATED)

    @routes.delete("/v1/subscriptions/{subscription_id}", status_code=204, responses=_NAMED, tags=["events"])
    def remove(subscription_id: str, token: AccessToken = writing) -> Response:
        """Unsubscribe."""
        subscribing.remove(plane.doors, token, subscription_id)
        return Response(status_code=204)

    @routes.post(
        "/v1/subscriptions/{subscription_id}/replay",
        responses=_NAMED | {200: {"model": shapes.Replayed, "description": "Tried again."}},
        tags=["events"],
    )
    def replay(subscription_id: str, token: AccessToken = writing) -> Response:
        """Try the dead letters of a subscription again."""
        return JSONResponse({"schema": "dayzero.replay/1", "replayed": subscribing.replay(plane.doors, token, subscription_id)})


def _add_page(routes: APIRouter, plane: Telling, new_secret: Callable[[], str]) -> None:
    @routes.get("/subscribe", include_in_schema=False)
    def shown(request: Request, filter: Annotated[str, Query(max_length=4000)] = "") -> HTMLResponse:
        return _shown(request, plane, {"filter": filter})

    @routes.post("/subscribe", include_in_schema=False)
    async def add(request: Request) -> HTMLResponse:
        fields = await guarded_form(request)
        token = _writer(request, plane)
        try:
            minutes = fields.get("digest_minutes", "").strip()
            if minutes and not (minutes.isascii() and minutes.isdigit() and 1 <= int(minutes[:6]) <= 7 * 24 * 60):
                raise BadInputError("a digest takes 1 to 10080 minutes.")
            wanted = Wanted.model_construct(
                target=fields.get("target", "").strip()[:1024], filter=fields.get("filter", "").strip()[:4001], channel=None,
                digest_minutes=int(minutes) if minutes else None, quiet=fields.get("quiet", "").strip() or None,
            )  # fmt: skip
            made = await run_in_threadpool(lambda: subscribing.ask(plane.doors, token, _asked(wanted, new_secret)))
        except DayzeroError as error:
            return await run_in_threadpool(_shown, request, plane, fields, str(error), 422)
        return await run_in_threadpool(_shown, request, plane, {}, None, 200, made)

    @routes.post("/subscribe/{subscription_id}/remove", include_in_schema=False)
    async def remove(request: Request, subscription_id: str) -> Response:
        await guarded_form(request)
        await run_in_threadpool(subscribing.remove, plane.doors, _writer(request, plane), subscription_id)
        return RedirectResponse("/subscribe", _SEE_OTHER)

    @routes.post("/subscribe/{subscription_id}/replay", include_in_schema=False)
    async def replay(request: Request, subscription_id: str) -> Response:
        await guarded_form(request)
        await run_in_threadpool(subscribing.replay, plane.doors, _writer(request, plane), subscription_id)
        return RedirectResponse("/subscribe", _SEE_OTHER)


def _add_links(routes: APIRouter, plane: Telling) -> None:
    """A link is asked about before it does anything: mail scanners follow links, and press no buttons."""

    @routes.get("/subscribe/confirm", include_in_schema=False)
    def confirm(token: LinkToken = "") -> HTMLResponse:
        plane.doors.links.confirming(token)
        return page("link.html", title="Confirm a subscription", action="/subscribe/confirm", token=token, button="Confirm")

    @routes.post("/subscribe/confirm", include_in_schema=False)
    async def confirmed(request: Request, token: LinkToken = "") -> HTMLResponse:
        wanted = token or (await form_of(request)).get("token", "")
        await run_in_threadpool(subscribing.confirm, plane.doors, wanted)
        return page("link.html", title="Confirmed", action=None, token="", button="")

    @routes.get("/subscribe/leave", include_in_schema=False)
    def leave(token: LinkToken = "") -> HTMLResponse:
        plane.doors.links.leaving(token)
        return page("link.html", title="Unsubscribe", action="/subscribe/leave", token=token, button="Unsubscribe")

    @routes.post("/subscribe/leave", include_in_schema=False)
    async def left(request: Request, token: LinkToken = "") -> HTMLResponse:
        wanted = token or (await form_of(request)).get("token", "")
        await run_in_threadpool(subscribing.leave, plane.doors, wanted)
        return page("link.html", title="Unsubscribed", action=None, token="", button="")


def _rows(plane: Telling, token: AccessToken) -> list[dict[str, Json]]:
    standings = plane.doors.subscribers.standings()
    return [shown_subscription(one, standings.get(one.id)) for one in subscribing.owned(plane.doors, token)]


def _writer(request: Request, plane: Telling) -> AccessToken:
    token = holder(request, plane.access)
    if token is None or not token.scope.allows(Scope.WRITE):
        raise HTTPException(HTTP_FORBIDDEN, "subscribing needs a token with scope write.")
    return token


def _answer(rows: list[dict[str, Json]], status: int = 200) -> Response:
    return JSONResponse({"schema": SCHEMA, "subscriptions": rows}, status)


def _shown(
    request: Request,
    plane: Telling,
    fields: dict[str, str],
    problem: str | None = None,
    status: int = 200,
    made: subscribing.Invited | None = None,
) -> HTMLResponse:
    token = holder(request, plane.access)
    may_write = token is not None and token.scope.allows(Scope.WRITE)
    return page(
        "subscribe.html",
        title="Subscribe",
        here="/subscribe",
        problem=problem,
        status=status,
        may_write=may_write,
        guard=guard_of(request),
        rows=_rows(plane, token) if token is not None and may_write else [],
        fields=_BLANK | fields,
        made=made,
        secret=made.subscription.secret if made else None,
        columns=[(column.name, column.meaning) for column in EVENT_COLUMNS],
    )
