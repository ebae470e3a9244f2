"""Events as they happen: an Atom feed a filter, and server-sent events that go on where a reader left off."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, Protocol
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Header, HTTPException, Query, Request
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from dayzero.domain.access import Viewer
from dayzero.domain.canonical import plain
from dayzero.domain.events import Event
from dayzero.ports.telling import EventFeed
from dayzero.stages.telling.atom import atom_feed
from dayzero.web import api_shapes as shapes
from dayzero.web.seeing import Eyes

EVERY_S = 1.0
BEAT_EVERY = 15
MAX_STREAMS = 100
AT_ONCE = 200
_HTTP_BUSY = 503
STREAM_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no", "x-content-type-options": "nosniff"}
FILTER = 'A predicate over the fields of events, such as: event = "dayzero.entry.changed" and correctness = "verified".'
Filter = Annotated[str, Query(max_length=4000, description=FILTER)]
_FEED: dict[int | str, dict[str, Any]] = {200: {"description": "The feed.", "content": {"application/atom+xml": {}}}}


class Telling(Protocol):
    """The control plane as feeds read it."""

    @property
    def feed(self) -> EventFeed:
        """The events."""
        ...


def feeds_router(plane: Telling, eyes: Eyes, public_url: str | None) -> APIRouter:
    """`/feed.atom` and `/v1/events`. Links name `public_url`, or the address that was asked."""
    routes = APIRouter()
    viewing = Depends(eyes)
    streams = [0]

    @routes.get("/feed.atom", responses=shapes.answers(401, 403, 422, 503) | _FEED, response_class=Response, tags=["events"])
    def atom(request: Request, filter: Filter = "", viewer: Viewer = viewing) -> Response:
        """The newest hundred events that match."""
        base = (public_url or str(request.base_url)).rstrip("/")
        self_url = f"{base}/feed.atom" + (f"?{urlencode({'filter': filter})}" if filter else "")
        body = atom_feed(plane.feed.newest(filter, viewer, 100), filter, self_url, base)
        headers = {"cache-control": "private, max-age=60", "x-content-type-options": "nosniff"}
        return Response(body, media_type="application/atom+xml; charset=utf-8", headers=headers)

    # Not in the API's document: a program that tries every route of it would wait here for good.
    @routes.get("/v1/events", include_in_schema=False)
    def events(
        request: Request,
        filter: Filter = "",
        last_event_id: Annotated[str | None, Header(max_length=100)] = None,
        viewer: Viewer = viewing,
    ) -> Response:
        """Events that match from now on, or since the event whose id `Last-Event-ID` names, as server-sent events."""
        known = None if last_event_id is None else plane.feed.position_of(last_event_id)
        begin = plane.feed.last() if known is None else known
        plane.feed.after(begin, filter, viewer, 1)  # a wrong filter is refused before the stream begins
        if streams[0] >= MAX_STREAMS:
            raise HTTPException(_HTTP_BUSY, f"{MAX_STREAMS} readers are listening already.")
        told = _stream(plane.feed, request, filter, viewer, begin, streams)
        return StreamingResponse(told, media_type="text/event-stream", headers=STREAM_HEADERS)

    return routes


async def _stream(
    feed: EventFeed, request: Request, predicate: str, viewer: Viewer, position: int, streams: list[int]
) -> AsyncIterator[str]:
    streams[0] += 1
    try:
        yield ": dayzero\n\n"
        quiet = 0
        while not await request.is_disconnected():
            told = await run_in_threadpool(feed.after, position, predicate, viewer, AT_ONCE)
            for event in told.events:
                yield _message(event)
            if told.position > position:
                position, quiet = told.position, 0
                continue
            quiet += 1
            if quiet % BEAT_EVERY == 0:
                yield ": still here\n\n"
            await asyncio.sleep(EVERY_S)
    finally:
        streams[0] -= 1


def _message(event: Event) -> str:
    data = {
        "id": event.id,
        "type": event.kind.value,
        "timestamp": plain(event.occurred_at),
        "data": plain({**event.fields, "subject": event.subject}),
    }
    return f"id: {event.id}\nevent: {event.kind.value}\ndata: {json.dumps(data)}\n\n"
