"""An entry over HTTP: its page, the evidence behind it, the picture of its plan, and what two entries differ in."""

import math
from collections.abc import Callable, Hashable
from typing import Any, Protocol

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from dayzero.domain.access import Viewer
from dayzero.domain.adaptation import Adaptation
from dayzero.domain.canonical import plain
from dayzero.domain.entry import CompatibilityEntry
from dayzero.domain.entry_report import Report
from dayzero.domain.told_results import Report as Claimed
from dayzero.domain.told_results import ReportState
from dayzero.errors import BadInputError, DayzeroError, NotFoundError
from dayzero.kept import Kept
from dayzero.ports import reports as ports
from dayzero.ports.catalog import CompatibilityList
from dayzero.ports.hub import ArtifactStore
from dayzero.ports.ledger import Ledger
from dayzero.ports.running import Clock
from dayzero.stages.bundle.plan import PICTURE
from dayzero.stages.reporting.differing import diff_of
from dayzero.steps.bundles import bundled_file
from dayzero.steps.reporting import gathered, identified
from dayzero.web import api_shapes as shapes
from dayzero.web.entry_pages import (
    Around,
    Row,
    Shown,
    diff_page,
    entry_page,
    no_diff_page,
    no_entry_page,
    shown_of,
)
from dayzero.web.frame import PAGE_HEADERS

RunUrl = Callable[[Adaptation], str | None]

SANDBOXED = {**PAGE_HEADERS, "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
"""A worker wrote the bundle and the evidence: opened by themselves they run nothing either."""

_NAMED = shapes.answers(401, 403, 404, 422, 503)
KEPT = 256
MOST_REPORTS = 50
KEPT_PAGES = 64
"""Pages of models with many layers are hundreds of kilobytes."""


class Evident(Protocol):
    """What these pages need of the control plane."""

    @property
    def compatibility(self) -> CompatibilityList:
        """Entries as people ask for them."""
        ...

    @property
    def ledger(self) -> Ledger:
        """Where their evidence is found."""
        ...

    @property
    def artifacts(self) -> ArtifactStore:
        """Where their bundles lie."""
        ...

    @property
    def clock(self) -> Clock:
        """What ages are counted from."""
        ...


class Told(Evident, Protocol):
    """What pages show beside the evidence."""

    @property
    def reports(self) -> ports.Reports:
        """What others say: declared, never measured."""
        ...


class Reports:
    """Reports of entries, kept while they are asked for: an entry and its evidence never change, only its age does."""

    def __init__(self, plane: Evident) -> None:
        self._plane = plane
        self._kept = Kept[str, tuple[Report, Shown]](plane.clock, math.inf, KEPT)
        self._pages = Kept[Hashable, HTMLResponse](plane.clock, math.inf, KEPT_PAGES)

    def found(self, seen: CompatibilityList, entry_id: str) -> tuple[Report, Shown, Row, list[Row]]:
        """The report of an entry that the list shows, its row, and all versions of its model on the platform; NotFoundError,
        BadInputError."""
        entry, row, history = versions_of(seen, entry_id)
        whole = str(row["entry_id"])
        report, shown = self._kept.get(whole, lambda: self._made(entry, row))
        if report.entry.freshness.value != row["freshness"]:
            report = identified(report, row)
            shown = Shown(plain(report), shown.plots)
        return report, shown, row, history

    def page(self, key: Hashable, make: Callable[[], HTMLResponse]) -> HTMLResponse:
        """The page that follows from all that the key holds, drawn once."""
        found = self._pages.get(key, make)
        return HTMLResponse(found.body, found.status_code, {name: found.headers[name] for name in PAGE_HEADERS})

    def _made(self, entry: CompatibilityEntry, row: Row) -> tuple[Report, Shown]:
        report = report_of_row(self._plane, entry, row)
        return report, shown_of(report)


def entry_router(plane: Told, eyes: Any, run_url: RunUrl | None = None) -> APIRouter:
    """`/compat/{id}`, `/compat/{a}/diff/{b}` and what belongs to them; `eyes` is the dependency that says who looks,
    `run_url` where Prefect shows an adaptation."""
    routes, reports = APIRouter(), Reports(plane)

    def seen(viewer: Viewer) -> CompatibilityList:
        return plane.compatibility.seen_by(viewer)

    def others(viewer: Viewer, row: Row) -> tuple[Claimed, ...]:
        model, platform = str(row["model"]), str(row["platform"])
        found = plane.reports.reports(viewer, state=ReportState.ACCEPTED, model=model, platform=platform, limit=MOST_REPORTS)
        return tuple(found)

    def drawn(report: Report, shown: Shown, row: Row, history: list[Row], said: tuple[Claimed, ...]) -> HTMLResponse:
        picture = bundled_file(plane.artifacts, report.entry.bundle, PICTURE) is not None
        link = f"/compat/{report.entry_id}/run" if run_url is not None and row.get("adaptation_id") else None
        return entry_page(report, shown, Around(row, history, picture, link, said))

    @routes.get("/compat/{entry_id}", include_in_schema=False)
    def one(entry_id: str, viewer: Viewer = eyes) -> HTMLResponse:
        try:
            report, shown, row, history = reports.found(seen(viewer), entry_id)
        except BadInputError as error:
            return no_entry_page(str(error), status_of(error))
        versions = tuple((str(other["entry_id"]), str(other["freshness"])) for other in history)
        said = others(viewer, row)
        key = (report.entry_id, row.get("notified_at"), versions, tuple(one.id for one in said))
        return reports.page(key, lambda: drawn(report, shown, row, history, said))

    @routes.get("/compat/{a}/diff/{b}", include_in_schema=False)
    def differ(a: str, b: str, viewer: Viewer = eyes) -> HTMLResponse:
        try:
            return diff_page(diff_of(reports.found(seen(viewer), a)[0], reports.found(seen(viewer), b)[0]))
        except BadInputError as error:
            return no_diff_page(str(error), status_of(error))

    @routes.get("/v1/compat/{entry_id}/report", responses=_NAMED | {200: {"model": shapes.OneReport}}, tags=["list"])
    def report_json(entry_id: str, viewer: Viewer = eyes) -> JSONResponse:
        """What the page of an entry shows, its evidence layer by layer."""
        return JSONResponse(plain(reports.found(seen(viewer), entry_id)[0]))

    @routes.get("/v1/compat/{a}/diff/{b}", responses=_NAMED | {200: {"model": shapes.OneDiff}}, tags=["list"])
    def diff_json(a: str, b: str, viewer: Viewer = eyes) -> JSONResponse:
        """What differs from one entry to another."""
        return JSONResponse(plain(diff_of(reports.found(seen(viewer), a)[0], reports.found(seen(viewer), b)[0])))

    @routes.get("/compat/{entry_id}/plan.svg", include_in_schema=False)
    def picture(entry_id: str, viewer: Viewer = eyes) -> Response:
        drawn = bundled_file(plane.artifacts, seen(viewer).entry(entry_id).bundle, PICTURE)
        if drawn is None:
            raise NotFoundError(
                f"entry {entry_id} has no picture of its plan.", remedy="An adaptation that runs through draws one."
            )
        return Response(drawn, media_type="image/svg+xml", headers=SANDBOXED)

    @routes.get("/compat/{entry_id}/evidence/{sha256}", include_in_schema=False)
    def evidence(entry_id: str, sha256: str, viewer: Viewer = eyes) -> Response:
        entry = seen(viewer).entry(entry_id)
        if not any(sha256 in check.evidence for check in entry.checks):
            raise NotFoundError(f"{sha256[:80]!r} is no evidence of entry {entry_id[:80]}.", remedy="Its checks name theirs.")
        data = plane.ledger.artifact(sha256)
        kind = "application/json" if data[:1] == b"{" else "text/plain; charset=utf-8"
        return Response(data, media_type=kind, headers=SANDBOXED)

    @routes.get("/compat/{entry_id}/run", include_in_schema=False)
    def run(entry_id: str, viewer: Viewer = eyes) -> Response:
        _, row, _ = versions_of(seen(viewer), entry_id)
        adaptation = plane.ledger.adaptation(str(row["adaptation_id"]))
        address = run_url(adaptation) if run_url is not None else None
        if address is None:
            raise NotFoundError(f"Prefect has no run of entry {entry_id[:80]}.", remedy="Its database may have been emptied.")
        return RedirectResponse(address, status_code=302)

    return routes


def report_of_row(plane: Evident, entry: CompatibilityEntry, row: Row) -> Report:
    """The report of an entry of the list; without its adaptation's results it has what the entry and its evidence hold."""
    adaptation = row.get("adaptation_id")
    try:
        release = plane.ledger.release(str(row["release_id"]))
    except DayzeroError:
        release = None
    stacks = plane.compatibility.stacks(entry.key.platform)
    report = gathered(entry, plane.ledger, str(adaptation) if adaptation else None, stacks, release, plane.artifacts)
    return identified(report, row)


def versions_of(entries: CompatibilityList, entry_id: str) -> tuple[CompatibilityEntry, Row, list[Row]]:
    """One version of an entry, its row, and the rows of all versions; NotFoundError."""
    found = entries.entry(entry_id)
    history = list(entries.history(found.key.model, found.key.platform))
    for row in history:
        if str(row["entry_id"]).startswith(entry_id):
            return found, row, history
    raise NotFoundError(f"entry {entry_id} is in no version of the list.")


def status_of(error: BadInputError) -> int:
    """The HTTP status of an error that a page shows."""
    return 404 if isinstance(error, NotFoundError) else 422
