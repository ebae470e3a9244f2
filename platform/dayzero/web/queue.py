"""The queue of re-runs: which stale entry is run again first, and why, as a page and as JSON."""

from typing import Protocol

from fastapi import APIRouter, Depends
from fastapi.responses import HTMLResponse, Response

from dayzero.domain.access import Viewer
from dayzero.domain.canonical import Json, plain
from dayzero.ports.ageing import AgeingBook
from dayzero.steps.ageing import Queued, queue
from dayzero.web import api_shapes as shapes
from dayzero.web.answers import ASKED, Limit, OnPlatform, json_answer, shaped
from dayzero.web.frame import page
from dayzero.web.seeing import Eyes, Seen

SCHEMA = "dayzero.reruns/1"
ROWS_A_PAGE = 100


class Ageing(Seen, Protocol):
    """The control plane as these routes need it."""

    @property
    def ageing(self) -> AgeingBook:
        """What waits to be run again."""
        ...


def queue_router(plane: Ageing, eyes: Eyes) -> APIRouter:
    """`/queue` and `/v1/queue`."""
    routes = APIRouter()
    viewing = Depends(eyes)

    @routes.get("/v1/queue", responses=ASKED | shaped(shapes.Queue), tags=["work"])
    def waiting(platform: OnPlatform = None, limit: Limit = 100, viewer: Viewer = viewing) -> Response:
        """Stale entries that wait to be run again, the first to be started first; `total` counts all of them."""
        found = queue(plane.ageing, platform or None, viewer)
        return json_answer({"schema": SCHEMA, "queue": [place_of(one) for one in found[:limit]], "total": len(found)})

    @routes.get("/queue", include_in_schema=False)
    def queue_page(platform: OnPlatform = None, viewer: Viewer = viewing) -> HTMLResponse:
        found = queue(plane.ageing, platform or None, viewer)
        return page(
            "queue.html",
            title="To be run again",
            here="/queue",
            now=plane.clock.now(),
            queue=found[:ROWS_A_PAGE],
            total=len(found),
            left=max(len(found) - ROWS_A_PAGE, 0),
            platform=platform or "",
        )

    return routes


def place_of(one: Queued) -> Json:
    """A place in the queue with the terms that make it."""
    return {"rerun": plain(one.rerun), "score": one.priority.score, "terms": list(one.priority.terms)}
