"""Known failures, and what platforms lack, those gaps first that unlock most models: as a page and as JSON."""

from typing import Annotated, Protocol

from fastapi import APIRouter, Depends, Query
from fastapi.responses import HTMLResponse, Response

from dayzero.domain.access import Viewer
from dayzero.domain.canonical import plain
from dayzero.domain.failures import FailureKind, KnownFailure
from dayzero.ports.failures import FailureMemory
from dayzero.stages.failures.foretelling import ranked_gaps
from dayzero.web import api_shapes as shapes
from dayzero.web.answers import ASKED, Limit, OnPlatform, json_answer, shaped
from dayzero.web.frame import page
from dayzero.web.seeing import Eyes, Seen

FAILURES_SCHEMA = "dayzero.failures/1"
GAPS_SCHEMA = "dayzero.gaps/1"
ROWS_A_PAGE = 100
OfOperator = Annotated[str | None, Query(max_length=1024, description="Only of this operator.")]
Every = Annotated[bool, Query(alias="all", description="Those too that no model meets any more.")]


class Remembering(Seen, Protocol):
    """The control plane as these routes need it."""

    @property
    def failures(self) -> FailureMemory:
        """What went wrong."""
        ...


def failures_router(plane: Remembering, eyes: Eyes) -> APIRouter:
    """`/failures`, `/v1/failures` and `/v1/gaps`."""
    routes = APIRouter()
    viewing = Depends(eyes)

    def known(viewer: Viewer, platform: str | None, operator: str | None = None) -> tuple[KnownFailure, ...]:
        return tuple(plane.failures.seen_by(viewer).known(platform or None, operator=operator or None))

    @routes.get("/v1/failures", responses=ASKED | shaped(shapes.Failures), tags=["failures"])
    def failures(
        platform: OnPlatform = None,
        operator: OfOperator = None,
        every: Every = False,
        limit: Limit = 100,
        viewer: Viewer = viewing,
    ) -> Response:
        """Known failures, those that hit the most models first; `total` counts those beyond the limit too."""
        found = tuple(one for one in known(viewer, platform, operator) if every or one.models)
        return json_answer({"schema": FAILURES_SCHEMA, "failures": plain(found[:limit]), "total": len(found)})

    @routes.get("/v1/gaps", responses=ASKED | shaped(shapes.Gaps), tags=["failures"])
    def gaps(platform: OnPlatform = None, limit: Limit = 100, viewer: Viewer = viewing) -> Response:
        """Operators that a platform lacks, or every platform: first those that models lack alone."""
        found = ranked_gaps(known(viewer, platform))
        document = {"platform": platform, "gaps": plain(found[:limit]), "total": len(found)}
        return json_answer({"schema": GAPS_SCHEMA, **document})

    @routes.get("/failures", include_in_schema=False)
    def failures_page(platform: OnPlatform = None, operator: OfOperator = None, viewer: Viewer = viewing) -> HTMLResponse:
        found = known(viewer, platform, operator)
        now = tuple(one for one in found if one.models and one.kind is not FailureKind.MISSING)
        lacking = ranked_gaps(found if not operator else known(viewer, platform))
        shown = tuple(one for one in lacking if not operator or one.operator == operator)
        return page(
            "failures.html",
            title="Failures and gaps",
            here="/failures",
            now=plane.clock.now(),
            failures=now[:ROWS_A_PAGE],
            failures_left=max(len(now) - ROWS_A_PAGE, 0),
            gaps=shown[:ROWS_A_PAGE],
            gaps_left=max(len(shown) - ROWS_A_PAGE, 0),
            platform=platform or "",
            operator=operator or "",
        )

    return routes
