"""What others say over HTTP: reports that were let through, and new ones from the field that wait for it."""

from typing import Annotated, Protocol

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from dayzero.domain.access import AccessToken, Scope, Viewer
from dayzero.domain.told_results import ReportKind, ReportState
from dayzero.errors import BadInputError
from dayzero.ports.access import Access
from dayzero.ports.reports import Reports
from dayzero.stages.claims.reading import claim_of
from dayzero.stages.claims.showing import SCHEMA, shown_report
from dayzero.web import api_shapes as shapes
from dayzero.web.seeing import Eyes
from dayzero.web.viewers import demand

_CREATED = 201
Name = Annotated[str | None, Query(max_length=1024)]


class Said(Protocol):
    """The control plane as these routes need it."""

    @property
    def reports(self) -> Reports:
        """What others say."""
        ...

    @property
    def access(self) -> Access:
        """Who the tokens are."""
        ...


class FieldReport(BaseModel):
    """What a deployment says of a model on a platform."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    model: str = Field(max_length=1024)
    platform: str = Field(max_length=1024)
    says: str = Field(max_length=20, description="works, partly or fails")
    source: str = Field(max_length=2000, description="Which deployment, and where it is written.")
    engine: str | None = Field(None, max_length=200)
    dtype: str | None = Field(None, max_length=200)
    devices: int | None = Field(None, ge=1, lt=10**6)
    observed_on: str | None = Field(None, max_length=30, description="ISO date")
    note: str = Field("", max_length=2000)
    figures: dict[str, float] = Field(default_factory=dict, max_length=50)


def reports_router(plane: Said, eyes: Eyes) -> APIRouter:
    """`/v1/reports`."""
    routes = APIRouter()
    viewing, writing = Depends(eyes), Depends(demand(plane.access, Scope.WRITE))
    refused = shapes.answers(401, 403, 422, 503)

    @routes.get(
        "/v1/reports", responses=refused | {200: {"model": shapes.Reports, "description": "What others say."}}, tags=["reports"]
    )
    def reports(
        model: Name = None,
        platform: Name = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        viewer: Viewer = viewing,
    ) -> Response:
        """Claims of others that were let through, the newest first. Their grade is declared."""
        found = plane.reports.reports(viewer, state=ReportState.ACCEPTED, model=model, platform=platform, limit=limit)
        return JSONResponse({"schema": SCHEMA, "reports": [shown_report(one) for one in found]})

    @routes.post(
        "/v1/reports",
        status_code=_CREATED,
        responses=refused | {201: {"model": shapes.ReportTaken, "description": "Taken; it is shown once somebody accepts it."}},
        tags=["reports"],
    )
    def tell(report: FieldReport, token: AccessToken = writing) -> Response:
        """Report from the field."""
        fields = report.model_dump(exclude={"figures"})
        try:
            claim = claim_of({**report.figures, **fields}, report.source)
        except BadInputError as error:
            raise BadInputError(f"{error.message}.", remedy="See /v1/openapi.json.") from error
        new = plane.reports.tell(ReportKind.FIELD, (claim,), token.id, ReportState.PENDING)
        plane.access.record(token.id, "report.add", f"{claim.model} on {claim.platform}", claim.says.value)
        return JSONResponse({"schema": "dayzero.report-taken/1", "new": new, "state": ReportState.PENDING.value}, _CREATED)

    return routes
