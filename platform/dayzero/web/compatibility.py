"""The compatibility list over HTTP: JSON for programs, and plain pages for people."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Protocol

from fastapi import APIRouter, Depends, Query
from fastapi.responses import HTMLResponse, JSONResponse, Response

from dayzero.domain.access import Viewer
from dayzero.domain.canonical import Json, plain
from dayzero.domain.columns import COMPATIBILITY_COLUMNS
from dayzero.domain.entry import CompatibilityEntry
from dayzero.errors import BadInputError, NotFoundError
from dayzero.ports.access import Access
from dayzero.ports.catalog import CompatibilityList
from dayzero.ports.hub import ArtifactStore
from dayzero.stages.bundle.plan import PICTURE
from dayzero.steps.bundles import bundled_file
from dayzero.web.frame import PAGE_HEADERS
from dayzero.web.pages import entry_page, list_page
from dayzero.web.viewers import viewer_from

SCHEMA = "dayzero.compat/1"
PICTURE_HEADERS = {**PAGE_HEADERS, "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
"""A worker wrote the bundle that the picture comes from: opened by itself it runs nothing either."""

MAX_PAGE_ROWS = 1000

Filter = Annotated[str, Query(max_length=8000, description="A predicate over the columns of the list.")]
Limit = Annotated[int, Query(ge=1, le=100_000)]


class Listing(Protocol):
    """What these pages need of the control plane."""

    @property
    def compatibility(self) -> CompatibilityList:
        """Entries as people ask for them."""
        ...

    @property
    def access(self) -> Access:
        """Who the tokens are."""
        ...

    @property
    def artifacts(self) -> ArtifactStore:
        """Where their bundles lie."""
        ...


def router(plane: Listing, *, open_reading: bool = True) -> APIRouter:
    """`/v1/compat`, `/v1/compat/rollup`, `/v1/compat/{id}` as JSON; `/` and `/compat/{id}` as pages without JavaScript,
    `/compat/{id}/plan.svg` as the picture of the entry's plan. Each shows what the request's token may see."""
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
        row, found = _entry(seen(viewer), entry_id)
        return JSONResponse({"schema": SCHEMA, "entries": [row], "entry": plain(found)})

    @routes.get("/")
    def page(filter: Filter = "", viewer: Viewer = eyes) -> HTMLResponse:
        return _list(seen(viewer), filter)

    @routes.get("/compat/{entry_id}")
    def one(entry_id: str, viewer: Viewer = eyes) -> HTMLResponse:
        try:
            row, found = _entry(seen(viewer), entry_id)
        except BadInputError as error:
            return entry_page(None, None, str(error), status=_status(error))
        drawn = bundled_file(plane.artifacts, found.bundle, PICTURE) is not None
        return entry_page(row, found, None, drawn=drawn)

    @routes.get("/compat/{entry_id}/plan.svg")
    def picture(entry_id: str, viewer: Viewer = eyes) -> Response:
        drawn = bundled_file(plane.artifacts, seen(viewer).entry(entry_id).bundle, PICTURE)
        if drawn is None:
            raise NotFoundError(
                f"entry {entry_id} has no picture of its plan.", remedy="An adaptation that runs through draws one."
            )
        return Response(drawn, media_type="image/svg+xml", headers=PICTURE_HEADERS)

    return routes


def _entry(entries: CompatibilityList, entry_id: str) -> tuple[Json, CompatibilityEntry]:
    """One version of an entry, its row before it; NotFoundError."""
    found = entries.entry(entry_id)
    for row in entries.history(found.key.model, found.key.platform):
        if str(row["entry_id"]).startswith(entry_id):
            return plain(row), found
    raise NotFoundError(f"entry {entry_id} is in no version of the list.")


def _list(entries: CompatibilityList, filter: str) -> HTMLResponse:
    try:
        rows = entries.current(filter, limit=MAX_PAGE_ROWS)
    except BadInputError as error:
        return list_page([], filter, _columns(), str(error), _status(error))
    return list_page(_best_first(rows, entries.rollup()), filter, _columns(), None)


def _best_first(rows: Sequence[Mapping[str, object]], rollup: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """The rows by model and platform, the one that the roll-up takes first."""
    best = {row["best_entry_id"] for row in rollup}
    return sorted(rows, key=lambda row: (str(row["model"]), str(row["platform"]), row["entry_id"] not in best))


def _columns() -> tuple[tuple[str, str], ...]:
    return tuple((column.name, column.meaning) for column in COMPATIBILITY_COLUMNS)


def _status(error: BadInputError) -> int:
    return 404 if isinstance(error, NotFoundError) else 422
