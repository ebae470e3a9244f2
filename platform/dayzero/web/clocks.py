"""The day-0 clock and the league of platforms: how long it took from live weights to verified, as a page and as JSON."""

from urllib.parse import urlencode

from fastapi import APIRouter, Depends
from fastapi.responses import HTMLResponse, Response

from dayzero.domain.access import Viewer
from dayzero.domain.canonical import plain
from dayzero.domain.listing import Clocks
from dayzero.errors import BadInputError
from dayzero.web import api_shapes as shapes
from dayzero.web.answers import ASKED, Cursor, Limit, OfModel, OnPlatform, json_answer, paged, shaped
from dayzero.web.frame import page
from dayzero.web.seeing import Eyes, Seen

CLOCK_SCHEMA = "dayzero.clock/1"
LEAGUE_SCHEMA = "dayzero.league/1"
ROWS_A_PAGE = 50
STEPS = (("detection", "detected"), ("first_token", "first token"), ("verification", "verified"), ("notification", "told"))
"""The steps of the clock, and the words for what each leads to."""


def clocks_router(plane: Seen, eyes: Eyes) -> APIRouter:
    """`/clock`, `/v1/clock` and `/v1/league`."""
    routes = APIRouter()
    viewing = Depends(eyes)

    @routes.get("/v1/clock", responses=ASKED | shaped(shapes.OneClock), tags=["clock"])
    def clock(
        model: OfModel = None,
        platform: OnPlatform = None,
        limit: Limit = 100,
        cursor: Cursor = None,
        viewer: Viewer = viewing,
    ) -> Response:
        """The day-0 clock of each model on each platform, the latest weights first."""
        found = plane.reading.seen_by(viewer).clocks(model, platform, limit=limit, cursor=cursor)
        return paged({"schema": CLOCK_SCHEMA, "target_s": found.target_s, "clock": plain(found.rows)}, found.next)

    @routes.get("/v1/league", responses=ASKED | shaped(shapes.OneLeague), tags=["clock"])
    def league(viewer: Viewer = viewing) -> Response:
        """Platforms by how many of their models were verified within the target, and how fast."""
        found = plane.reading.seen_by(viewer).league()
        return json_answer({"schema": LEAGUE_SCHEMA, "target_s": found.target_s, "league": plain(found.rows)})

    @routes.get("/clock", include_in_schema=False)
    def clock_page(
        model: OfModel = None, platform: OnPlatform = None, cursor: Cursor = None, viewer: Viewer = viewing
    ) -> HTMLResponse:
        reading, problem, shown = plane.reading.seen_by(viewer), None, Clocks(0.0, ())
        table = reading.league()
        asked = {"model": model or "", "platform": platform or ""}
        try:
            shown = reading.clocks(model or None, platform or None, limit=ROWS_A_PAGE, cursor=cursor or None)
        except BadInputError as error:
            problem = str(error)
        return page(
            "clock.html",
            title="Day-0 clock",
            here="/clock",
            problem=problem,
            status=200 if problem is None else 422,
            now=plane.clock.now(),
            league=table,
            clocks=shown,
            asked=asked,
            query=urlencode({key: value for key, value in asked.items() if value}),
            steps=STEPS,
            words=dict(STEPS),
            first=not cursor,
        )

    return routes
