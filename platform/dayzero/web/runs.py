"""Adaptations under way: a page that server-sent events keep fresh, one of them with its log, and its cancel and retry."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse
from starlette.concurrency import run_in_threadpool

from dayzero.domain.access import Scope, Viewer
from dayzero.domain.adaptation import GOING_ON, Adaptation, AdaptationState
from dayzero.domain.canonical import plain
from dayzero.domain.listing import RunPage
from dayzero.errors import BadInputError
from dayzero.web.first_time import next_steps
from dayzero.web.frame import page
from dayzero.web.seeing import Eyes, Seen
from dayzero.web.session import guard_of, guarded_form, holder
from dayzero.web.viewers import HTTP_FORBIDDEN

EVERY_S = 1.0
BEAT_EVERY = 15
RECENT_S = 900.0
MAX_STREAMS = 200
LOG_LINES = 1000
_SEE_OTHER = 303
STREAM_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no", "x-content-type-options": "nosniff"}


def runs_router(plane: Seen, eyes: Eyes) -> APIRouter:
    """`/runs`, `/runs/events` (server-sent events), `/runs/{id}`, and with a token its log, cancel and retry."""
    routes = APIRouter(include_in_schema=False)
    viewing = Depends(eyes)
    streams = Streams(plane)

    @routes.get("/runs")
    def runs(
        state: Annotated[str, Query(max_length=20)] = "",
        cursor: Annotated[str | None, Query(max_length=20_000)] = None,
        viewer: Viewer = viewing,
    ) -> HTMLResponse:
        reading, problem, shown = plane.reading.seen_by(viewer), None, RunPage(())
        try:
            shown = reading.runs(state or None, cursor=cursor or None)
        except BadInputError as error:
            problem = str(error)
        tally = reading.tally()
        return page(
            "runs.html",
            title="Adaptations",
            here="/runs",
            problem=problem,
            status=200 if problem is None else 422,
            now=plane.clock.now(),
            page=shown,
            state=state,
            counts=[(one.value, tally.runs.get(one.value, 0)) for one in AdaptationState],
            steps=None if tally.runs else next_steps(tally),
        )

    @routes.get("/runs/events")
    async def events(viewer: Viewer = viewing) -> StreamingResponse:
        return StreamingResponse(streams.open(viewer), media_type="text/event-stream", headers=STREAM_HEADERS)

    @routes.get("/runs/{adaptation_id}")
    def run(adaptation_id: str, request: Request, viewer: Viewer = viewing) -> HTMLResponse:
        shown = plane.reading.seen_by(viewer).run(adaptation_id)
        token = holder(request, plane.access)
        lines = plane.catalog.log_lines(shown.id)[-LOG_LINES:] if viewer.token_id or token else None
        return page(
            "run.html",
            title=f"{shown.model} on {shown.platform}",
            here="/runs",
            now=plane.clock.now(),
            run=shown,
            checks=plane.ledger.checks(shown.id),
            lines=lines,
            guard=guard_of(request) if token and token.scope.allows(Scope.WRITE) else None,
            cancellable=shown.state in GOING_ON or shown.state is AdaptationState.BLOCKED,
            retriable=shown.state not in GOING_ON,
        )

    @routes.post("/runs/{adaptation_id}/{action}")
    async def act(adaptation_id: str, action: str, request: Request) -> RedirectResponse:
        await guarded_form(request)
        return await run_in_threadpool(_act, plane, request, adaptation_id, action)

    return routes


def _act(plane: Seen, request: Request, adaptation_id: str, action: str) -> RedirectResponse:
    token = holder(request, plane.access)
    if token is None or not token.scope.allows(Scope.WRITE):
        raise HTTPException(HTTP_FORBIDDEN, "this needs a token with scope write; give one under /session.")
    shown = plane.reading.seen_by(Viewer(token.id)).run(adaptation_id)
    actions = {"cancel": plane.catalog.cancel, "retry": plane.catalog.retry}
    if action not in actions:
        raise BadInputError(f"nothing called {action[:40]!r} can be done to an adaptation.")
    actions[action](shown.id)
    plane.access.record(token.id, f"run.{action}", shown.id, f"{shown.model} on {shown.platform}")
    return RedirectResponse(f"/runs/{shown.id}", _SEE_OTHER)


class Streams:
    """Streams of changes; readers with the same eyes share a query a second."""

    def __init__(self, plane: Seen) -> None:
        self._plane = plane
        self._open = 0
        self._found: dict[Viewer, tuple[float, tuple[Adaptation, ...]]] = {}

    async def open(self, viewer: Viewer) -> AsyncIterator[str]:
        """What changes, as server-sent events: each adaptation once at the beginning, then whenever it moves."""
        if self._open >= MAX_STREAMS:
            yield f"event: full\ndata: {MAX_STREAMS} readers follow already; the page refreshes itself without this.\n\n"
            return
        self._open += 1
        told: dict[str, str] = {}
        quiet = 0
        try:
            while True:
                changed = [one for one in await self._now(viewer) if told.get(one.id) != _mark(one)]
                told.update({one.id: _mark(one) for one in changed})
                quiet = 0 if changed else quiet + 1
                if changed:
                    yield f"event: runs\ndata: {json.dumps([told_of(one) for one in changed])}\n\n"
                elif quiet % BEAT_EVERY == 0:
                    yield ": still here\n\n"
                await asyncio.sleep(EVERY_S)
        finally:
            self._open -= 1

    async def _now(self, viewer: Viewer) -> tuple[Adaptation, ...]:
        clock = self._plane.clock
        at, found = self._found.get(viewer, (float("-inf"), ()))
        if clock.monotonic_s() - at >= EVERY_S * 0.9:
            found = tuple(await run_in_threadpool(self._plane.reading.seen_by(viewer).changed_runs, RECENT_S))
            self._found = {viewer: (clock.monotonic_s(), found)} | {k: v for k, v in self._found.items() if k != viewer}
        return found


def _mark(run: Adaptation) -> str:
    return f"{run.state.value} {run.attempt} {run.stage} {run.reason}"


def told_of(run: Adaptation) -> dict[str, object]:
    """What a stream says of an adaptation."""
    fields = ("id", "model", "platform", "state", "attempt", "stage", "reason", "heartbeat_at", "finished_at")
    return {name: plain(getattr(run, name)) for name in fields}
