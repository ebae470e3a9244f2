"""The compatibility list over HTTP: JSON for programs, and plain pages for people."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Protocol

from fastapi import APIRouter, Depends, Query
from fastapi.responses import HTMLResponse, JSONResponse

from dayzero.domain.access import Viewer
from dayzero.domain.canonical import plain
from dayzero.domain.columns import COMPATIBILITY_COLUMNS
from dayzero.errors import BadInputError
from dayzero.ports.access import Access
from dayzero.ports.catalog import CompatibilityList
from dayzero.web.entry import Evident, RunUrl, entry_router, status_of, versions_of
from dayzero.web.method import method_router
from dayzero.web.pages import list_page
from dayzero.web.viewers import viewer_from

SCHEMA = "dayzero.compat/1"
MAX_PAGE_ROWS = 1000

Filter = Annotated[str, Query(max_length=8000, description="A predicate over the columns of the list.")]
Limit = Annotated[int, Query(ge=1, le=100_000)]


class Listing(Evident, Protocol):
    """What these pages need of the control plane."""

    @property
    def access(self) -> Access:
        """Who the tokens are."""
        ...


def router(plane: Listing, *, open_reading: bool = True, run_url: RunUrl | None = None) -> APIRouter:
    """`/v1/compat`, `/v1/compat/rollup`, `/v1/compat/{id}` as JSON, `/` as a page; all of one entry, and the method. Each shows
    what the request's token may see; `run_url` says where Prefect shows an adaptation."""
    routes = APIRouter()
    eyes = Depends(viewer_from(plane.access, open_reading=open_reading))

    def seen(viewer: Viewer) -> CompatibilityList:
        return plane.compatibility.seen_by(viewer)

    @routes.get("/v1/compat")
    def entries(filter: Filter = "", limit: Limit = 1000, viewer: Viewer = eyes) -> JSONResponse:
        rows = seen(viewer).current(filter, limit=limit)
        return JSONResponse({"schema": SCHEMA, "filter": filter, "entries": [plain(row) for row in rows]})

    @routes.get("/v1/compat/rollup")
    def rollup(viewer: Viewer = eyes) -> JSONResponse:
        return JSONResponse({"schema": SCHEMA, "rollup": [plain(row) for row in seen(viewer).rollup()]})

    @routes.get("/v1/compat/{entry_id}")
    def entry(entry_id: str, viewer: Viewer = eyes) -> JSONResponse:
        found, row, _ = versions_of(seen(viewer), entry_id)
        return JSONResponse({"schema": SCHEMA, "entries": [plain(row)], "entry": plain(found)})

    @routes.get("/")
    def page(filter: Filter = "", viewer: Viewer = eyes) -> HTMLResponse:
        return _list(seen(viewer), filter)

    routes.include_router(entry_router(plane, eyes, run_url))
    routes.include_router(method_router())
    return routes


def _list(entries: CompatibilityList, filter: str) -> HTMLResponse:
    try:
        rows = entries.current(filter, limit=MAX_PAGE_ROWS)
    except BadInputError as error:
        return list_page([], filter, _columns(), str(error), status_of(error))
    return list_page(_best_first(rows, entries.rollup()), filter, _columns(), None)


def _best_first(rows: Sequence[Mapping[str, object]], rollup: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """The rows by model and platform, the one that the roll-up takes first."""
    best = {row["best_entry_id"] for row in rollup}
    return sorted(rows, key=lambda row: (str(row["model"]), str(row["platform"]), row["entry_id"] not in best))


def _columns() -> tuple[tuple[str, str], ...]:
    return tuple((column.name, column.meaning) for column in COMPATIBILITY_COLUMNS)
