"""What a request that fails is told: workers their Refusal, programs problem details, people a page."""

import logging

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

from dayzero.adapters.remote.wire import PREFIX, STATUS
from dayzero.errors import DayzeroError
from dayzero.web.frame import page
from dayzero.web.ledger import error_answer

PROBLEM_TYPE = "application/problem+json"
TITLES = {
    400: "Bad request",
    401: "A token is needed",
    403: "Not allowed",
    404: "Not found",
    405: "Not possible here",
    406: "No such format",
    409: "Out of date",
    413: "Too large",
    422: "Not understood",
    423: "Blocked",
    429: "Too many requests",
    500: "This went wrong here",
    502: "Something it needs is down",
    503: "Not available now",
}
logger = logging.getLogger(__name__)


def answer_error(request: Request, error: Exception) -> Response:
    """The error in the form that its reader takes; of what is not ours only the log knows the text."""
    path = request.url.path
    if path.startswith(PREFIX):
        return error_answer(request, error)
    status, detail, remedy, headers = _said(error)
    if path.startswith(("/v1/", "/healthz", "/static/", "/badge/", "/feed.")):
        return problem(status, detail, remedy, headers)
    shown = page("problem.html", title=TITLES.get(status, "Problem"), problem=detail, status=status, remedy=remedy, code=status)
    shown.headers.update(headers)
    return shown


def problem(status: int, detail: str, remedy: str | None = None, headers: dict[str, str] | None = None) -> JSONResponse:
    """Problem details (RFC 9457), with what to do about it."""
    body = {"type": "about:blank", "title": TITLES.get(status, "Problem"), "status": status, "detail": detail, "remedy": remedy}
    return JSONResponse(body, status, headers, PROBLEM_TYPE)


def _said(error: Exception) -> tuple[int, str, str | None, dict[str, str]]:
    if isinstance(error, DayzeroError):
        kind = next(kind for kind in type(error).__mro__ if kind in STATUS)
        return STATUS[kind], error.message, error.remedy, {}
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return 422, f"{where}: {first['msg']}.", "The API's document says what is taken: /v1/openapi.json.", {}
    if isinstance(error, StarletteHTTPException):
        return error.status_code, str(error.detail), None, dict(error.headers or {})
    logger.error("a request failed: %s", type(error).__name__, exc_info=error)
    return 500, "the control plane failed; its log says why.", None, {}
