"""The API, version 1: the list and the work as JSON, and exports and badges. Every answer is in /v1/openapi.json."""

from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Depends, FastAPI, Query
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response

from dayzero.adapters.tables.parquet import parquet
from dayzero.domain.access import Viewer
from dayzero.domain.adaptation import AdaptationState
from dayzero.domain.canonical import plain
from dayzero.ports.catalog import CompatibilityList
from dayzero.stages.exporting.texts import SCHEMA, Format, exported
from dayzero.web import api_shapes as shapes
from dayzero.web.answers import ASKED, NAMED, Cursor, Limit, json_answer, paged, shaped
from dayzero.web.badges import badge
from dayzero.web.entry import versions_of
from dayzero.web.seeing import Eyes, Seen

LIST_SCHEMA = SCHEMA
FEED_SCHEMA = "dayzero.releases/1"
RUN_SCHEMA = "dayzero.run/1"
MODEL_SCHEMA = "dayzero.model/1"
PLATFORM_SCHEMA = "dayzero.platform/1"
MAX_EXPORT_ROWS = 1_000_000
MEDIA_TYPES = {
    Format.JSON: "application/json",
    Format.CSV: "text/csv; charset=utf-8",
    Format.MARKDOWN: "text/markdown; charset=utf-8",
    Format.PARQUET: "application/vnd.apache.parquet",
}
FILTER = 'A predicate over the columns, such as: platform = "cpu" and correctness in ("verified", "functional").'
Filter = Annotated[str, Query(max_length=4000, description=FILTER)]
Search = Annotated[str, Query(max_length=200, description="Words that begin words of a model's name or alias.")]


class Listed(Seen, Protocol):
    """The control plane as the API reads it."""

    @property
    def compatibility(self) -> CompatibilityList:
        """Single entries, and all of them at once."""
        ...


def api_router(plane: Listed, eyes: Eyes) -> APIRouter:
    """Routes under /v1 and /badge."""
    routes = APIRouter()
    viewing = Depends(eyes)
    _add_list(routes, plane, viewing)
    _add_exports(routes, plane, viewing)
    _add_names(routes, plane, viewing)
    _add_work(routes, plane, viewing)
    return routes


def _add_list(routes: APIRouter, plane: Listed, viewing: Any) -> None:
    @routes.get("/v1/compat", responses=ASKED | shaped(shapes.Entries), tags=["list"])
    def entries(
        filter: Filter = "", search: Search = "", limit: Limit = 100, cursor: Cursor = None, viewer: Viewer = viewing
    ) -> Response:
        """Current entries that match, by model, platform and key."""
        found = plane.reading.seen_by(viewer).entries(filter, search=search, limit=limit, cursor=cursor)
        return paged({"schema": LIST_SCHEMA, "filter": filter, "entries": plain(found.rows)}, found.next)

    @routes.get("/v1/compat/rollup", responses=ASKED | shaped(shapes.Rollup), tags=["list"])
    def rollup(limit: Limit = 200, cursor: Cursor = None, viewer: Viewer = viewing) -> Response:
        """One row a model on a platform: its best entry."""
        found = plane.reading.seen_by(viewer).rollup(limit=limit, cursor=cursor)
        return paged({"schema": LIST_SCHEMA, "rollup": plain(found.rows)}, found.next)


def _add_exports(routes: APIRouter, plane: Listed, viewing: Any) -> None:
    written: dict[str, Any] = {kind.split(";")[0]: {} for kind in MEDIA_TYPES.values()}
    answers = {200: {"description": "The whole list that matches.", "content": written}}

    @routes.get("/v1/compat/export", responses=ASKED | answers | shapes.answers(502), response_class=Response, tags=["list"])
    def export(format: Format = Format.JSON, filter: Filter = "", viewer: Viewer = viewing) -> Response:
        """All current entries that match, in one file."""
        rows = plane.compatibility.seen_by(viewer).current(filter, limit=MAX_EXPORT_ROWS)
        body = parquet(rows) if format is Format.PARQUET else exported(rows, filter, format).encode()
        suffix = "md" if format is Format.MARKDOWN else format.value
        named = {"content-disposition": f'attachment; filename="compatibility.{suffix}"', "x-content-type-options": "nosniff"}
        return Response(body, media_type=MEDIA_TYPES[format], headers=named)

    @routes.get("/v1/compat/{entry_id}", responses=NAMED | shaped(shapes.OneEntry), tags=["list"])
    def entry(entry_id: str, viewer: Viewer = viewing) -> Response:
        """One version of an entry; the beginning of its id will do."""
        found, row, _ = versions_of(plane.compatibility.seen_by(viewer), entry_id)
        return json_answer({"schema": LIST_SCHEMA, "entries": [plain(row)], "entry": plain(found)})

    drawn: dict[int | str, dict[str, Any]] = {200: {"description": "A badge.", "content": {"image/svg+xml": {}}}}

    @routes.get("/badge/{platform}/{model:path}", responses=NAMED | drawn, response_class=Response, tags=["list"])
    def badges(platform: str, model: str, viewer: Viewer = viewing) -> Response:
        """The best entry of a model on a platform as a small picture; what nobody tried is said too."""
        asked = f"model = {_quoted(model.removesuffix('.svg'))} and platform = {_quoted(platform)}"
        found = plane.reading.seen_by(viewer).matrix(asked, limit=1)
        best = found.lines[0].cells.get(platform) if found.lines else None
        drawing = badge(platform, best.correctness if best else None, best.freshness if best else None)
        headers = {"cache-control": "public, max-age=60", "content-security-policy": "default-src 'none'; sandbox"}
        return Response(drawing, media_type="image/svg+xml", headers=headers)


def _add_names(routes: APIRouter, plane: Listed, viewing: Any) -> None:
    @routes.get("/v1/models/{name:path}", responses=NAMED | shaped(shapes.OneModel), tags=["names"])
    def model(name: str, viewer: Viewer = viewing) -> Response:
        """A model by its name or an alias."""
        return json_answer({"schema": MODEL_SCHEMA, "model": plain(plane.reading.seen_by(viewer).model(name))})

    @routes.get("/v1/platforms", responses=ASKED | shaped(shapes.Platforms), tags=["names"])
    def platforms(viewer: Viewer = viewing) -> Response:
        """Every platform with its counts and its day-0 clock."""
        return json_answer({"schema": PLATFORM_SCHEMA, "platforms": plain(tuple(plane.reading.seen_by(viewer).platforms()))})

    @routes.get("/v1/platforms/{slug}", responses=NAMED | shaped(shapes.OnePlatform), tags=["names"])
    def platform(slug: str, viewer: Viewer = viewing) -> Response:
        """A platform with its gaps, those first that unlock most models."""
        return json_answer({"schema": PLATFORM_SCHEMA, "platform": plain(plane.reading.seen_by(viewer).platform(slug))})


def _add_work(routes: APIRouter, plane: Listed, viewing: Any) -> None:
    shown = Annotated[str, Query(pattern="^(taken|ignored)$", description="Which: `taken`, or `ignored` with the reasons.")]

    @routes.get("/v1/releases", responses=ASKED | shaped(shapes.Releases), tags=["work"])
    def releases(show: shown = "taken", limit: Limit = 50, cursor: Cursor = None, viewer: Viewer = viewing) -> Response:
        """The feed of releases seen, the newest first."""
        reading = plane.reading.seen_by(viewer)
        ignored = show == "ignored"
        found = reading.sightings(limit=limit, cursor=cursor) if ignored else reading.releases(limit=limit, cursor=cursor)
        document = {"schema": FEED_SCHEMA, "releases": plain(found.releases), "sightings": plain(found.sightings)}
        return paged(document, found.next)

    @routes.get("/v1/runs", responses=ASKED | shaped(shapes.Runs), tags=["work"])
    def runs(
        state: AdaptationState | None = None, limit: Limit = 50, cursor: Cursor = None, viewer: Viewer = viewing
    ) -> Response:
        """Adaptations, the newest first."""
        found = plane.reading.seen_by(viewer).runs(state.value if state else None, limit=limit, cursor=cursor)
        return paged({"schema": RUN_SCHEMA, "runs": plain(found.runs)}, found.next)

    @routes.get("/v1/runs/{adaptation_id}", responses=NAMED | shaped(shapes.OneRun), tags=["work"])
    def run(adaptation_id: str, viewer: Viewer = viewing) -> Response:
        """One adaptation."""
        return json_answer({"schema": RUN_SCHEMA, "run": plain(plane.reading.seen_by(viewer).run(adaptation_id))})


def document_of(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document: FastAPI's, with the refusals as problem details, and tokens as an option."""
    made = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
    components = made.setdefault("components", {})
    components.setdefault("schemas", {})["Problem"] = shapes.Problem.model_json_schema()
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    made["security"] = [{}, {"token": []}]
    return made


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
