"""The feed of releases: what was taken and what followed, what was not taken, and why."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import HTMLResponse

from dayzero.domain.access import Viewer
from dayzero.domain.listing import FeedPage
from dayzero.errors import BadInputError
from dayzero.web.first_time import next_steps
from dayzero.web.frame import page
from dayzero.web.seeing import Eyes, Seen

STAGES = {
    "announced": "Announced: neither its configuration nor its weights are there.",
    "config": "Its configuration is there; what needs no weights is done ahead.",
    "weights_partial": "A part of its weights is there; what needs none is done ahead.",
    "weights": "Every weight file that it names is there.",
    "superseded": "A newer release of its repository took its place.",
    "withdrawn": "Its repository is gone.",
}


def releases_router(plane: Seen, eyes: Eyes) -> APIRouter:
    """`/releases`, and `/releases?show=ignored`."""
    routes = APIRouter(include_in_schema=False)
    viewing = Depends(eyes)

    @routes.get("/releases")
    def releases(
        show: Annotated[str, Query(max_length=20)] = "taken",
        cursor: Annotated[str | None, Query(max_length=20_000)] = None,
        viewer: Viewer = viewing,
    ) -> HTMLResponse:
        reading, problem, shown = plane.reading.seen_by(viewer), None, FeedPage()
        ignored = show == "ignored"
        try:
            shown = reading.sightings(cursor=cursor or None) if ignored else reading.releases(cursor=cursor or None)
        except BadInputError as error:
            problem = str(error)
        steps = None if problem or shown.releases or shown.sightings else next_steps(reading.tally())
        return page(
            "releases.html",
            title="Releases",
            here="/releases",
            problem=problem,
            status=200 if problem is None else 422,
            now=plane.clock.now(),
            feed=shown,
            ignored=ignored,
            stages=STAGES,
            steps=steps,
        )

    return routes
