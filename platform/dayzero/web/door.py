"""The HTTP door of the control plane."""

from collections.abc import Sequence
from typing import Protocol

from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException as StarletteHTTPException

from dayzero.errors import DayzeroError
from dayzero.ports.catalog import Workforce
from dayzero.ports.ledger import Ledger
from dayzero.web.frame import static_router
from dayzero.web.ledger import error_answer, ledger_router


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


def create_app(plane: Truth, routers: Sequence[APIRouter] = ()) -> FastAPI:
    """The application: /healthz, the ledger for workers, and any further routers."""
    app = FastAPI(title="dayzero", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/healthz")
    def healthz() -> dict[str, str]:
        plane.workforce.check_token("")
        return {"status": "ok"}

    app.include_router(ledger_router(plane.ledger, plane.workforce))
    for router in (static_router(), *routers):
        app.include_router(router)
    for kind in (DayzeroError, StarletteHTTPException, Exception):
        app.add_exception_handler(kind, error_answer)
    return app
