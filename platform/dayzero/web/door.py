"""The HTTP door of the control plane."""

from collections.abc import Sequence
from typing import Protocol

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException

from dayzero.errors import DayzeroError
from dayzero.ports.catalog import Workforce
from dayzero.ports.ledger import Ledger
from dayzero.web.api import document_of
from dayzero.web.frame import static_router
from dayzero.web.ledger import ledger_router
from dayzero.web.limiting import Limiting, Limits
from dayzero.web.problems import answer_error
from dayzero.web.timing import Around, Observer

SUMMARY = "Which model runs on which platform, how well that was checked, and since when."


class Truth(Protocol):
    """What the door needs of the control plane."""

    @property
    def ledger(self) -> Ledger:
        """The ledger that workers reach."""
        ...

    @property
    def workforce(self) -> Workforce:
        """Who checks the workers' tokens."""
        ...


def create_app(
    plane: Truth, routers: Sequence[APIRouter] = (), observe: Observer | None = None, limits: Limits | None = None
) -> FastAPI:
    """The application: /healthz, the ledger for workers, and any further routers; `observe` hears how long each took.

    Without limits everybody may ask as much as they like.
    """
    app = FastAPI(title="dayzero", version="1", summary=SUMMARY, docs_url=None, redoc_url=None, openapi_url="/v1/openapi.json")

    @app.get("/healthz", include_in_schema=False)
    def healthz() -> dict[str, str]:
        plane.workforce.check_token("")
        return {"status": "ok"}

    app.include_router(ledger_router(plane.ledger, plane.workforce), include_in_schema=False)
    for router in (static_router(), *routers):
        app.include_router(router)
    for kind in (DayzeroError, StarletteHTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, answer_error)
    app.openapi = lambda: document_of(app)  # type: ignore[method-assign]
    if limits is not None:
        app.add_middleware(Limiting, limits=limits)
    app.add_middleware(Around, observe=observe)
    return app
