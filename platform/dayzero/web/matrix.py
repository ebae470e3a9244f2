"""The pages of the list: the matrix, a model, the platforms and one of them."""

from typing import Annotated, Protocol
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query
from fastapi.responses import HTMLResponse

from dayzero.domain.access import Viewer
from dayzero.domain.columns import COMPATIBILITY_COLUMNS
from dayzero.domain.listing import Matrix, MatrixSort
from dayzero.domain.told_results import ReportState
from dayzero.errors import BadInputError
from dayzero.ports.reports import Reports
from dayzero.web.first_time import next_steps
from dayzero.web.frame import page
from dayzero.web.seeing import Eyes, Seen

MODELS_A_PAGE = 25
REPORTS_A_PAGE = 50
Filter = Annotated[str, Query(max_length=8000)]
Search = Annotated[str, Query(max_length=400)]
Cursor = Annotated[str | None, Query(max_length=20_000)]
SORTS = {
    MatrixSort.MODEL: "name",
    MatrixSort.CHANGED: "newest change",
    MatrixSort.VERIFIED: "most verified",
    MatrixSort.FAILING: "most failing",
}


class Told(Seen, Protocol):
    """The control plane as these pages need it."""

    @property
    def reports(self) -> Reports:
        """What others say, shown apart from what was measured."""
        ...


def matrix_router(plane: Told, eyes: Eyes) -> APIRouter:
    """`/`, `/models/{name}`, `/platforms` and `/platforms/{slug}`, for whoever looks."""
    routes = APIRouter(include_in_schema=False)
    viewing = Depends(eyes)

    @routes.get("/")
    def matrix(
        filter: Filter = "",
        search: Search = "",
        sort: str = "model",
        cursor: Cursor = None,
        viewer: Viewer = viewing,
    ) -> HTMLResponse:
        reading, problem = plane.reading.seen_by(viewer), None
        shown = Matrix((), (), {})
        try:
            shown = reading.matrix(filter, search=search, sort=_sort(sort), limit=MODELS_A_PAGE, cursor=cursor or None)
        except BadInputError as error:
            problem = str(error)
        steps = None if shown.lines or problem else next_steps(reading.tally())
        asked = {"filter": filter, "search": search, "sort": sort}
        return page(
            "matrix.html",
            title="Compatibility",
            heading="What runs where",
            here="/",
            problem=problem,
            status=200 if problem is None else 422,
            now=plane.clock.now(),
            matrix=shown,
            steps=steps,
            sorts=[(kind.value, words) for kind, words in SORTS.items()],
            query=urlencode({key: value for key, value in asked.items() if value and (key, value) != ("sort", "model")}),
            columns=COMPATIBILITY_COLUMNS,
            first=not cursor,
            filter=filter,
            search=search,
            sort=sort,
        )

    @routes.get("/models/{name:path}")
    def model(name: str, viewer: Viewer = viewing) -> HTMLResponse:
        shown = plane.reading.seen_by(viewer).model(name)
        said = plane.reports.reports(viewer, state=ReportState.ACCEPTED, model=shown.name, limit=REPORTS_A_PAGE)
        return page("model.html", title=shown.name, now=plane.clock.now(), model=shown, said=said)

    @routes.get("/platforms")
    def platforms(viewer: Viewer = viewing) -> HTMLResponse:
        reading = plane.reading.seen_by(viewer)
        shown = reading.platforms()
        steps = None if shown else next_steps(reading.tally())
        return page("platforms.html", title="Platforms", here="/platforms", now=plane.clock.now(), platforms=shown, steps=steps)

    @routes.get("/platforms/{slug}")
    def platform(slug: str, viewer: Viewer = viewing) -> HTMLResponse:
        shown = plane.reading.seen_by(viewer).platform(slug)
        return page("platform.html", title=shown.slug, here="/platforms", now=plane.clock.now(), platform=shown)

    return routes


def _sort(word: str) -> MatrixSort:
    try:
        return MatrixSort(word)
    except ValueError as error:
        known = ", ".join(MatrixSort)
        raise BadInputError(f"{word[:40]!r} is no order of the list.", remedy=f"They are {known}.") from error
