"""The ledger's routes: what a worker of one platform may read and write."""

import json
import logging
from collections.abc import Callable
from typing import Annotated, TypeVar
from urllib.parse import unquote

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from starlette.exceptions import HTTPException as StarletteHTTPException

from dayzero.adapters.remote.wire import (
    MAX_ARTIFACT_BYTES,
    MAX_JSON_BYTES,
    MAX_LOG_BYTES,
    PREFIX,
    STATUS,
    Alive,
    Claim,
    FoundResult,
    Heartbeat,
    KnownOffer,
    LogLine,
    NewCheck,
    NewMeasurement,
    NewResult,
    NewSamples,
    Offer,
    Refusal,
    ResultLink,
    StoredArtifact,
    to_wire,
)
from dayzero.codec import dump, load
from dayzero.domain.adaptation import Lease
from dayzero.domain.results import ResultKey
from dayzero.errors import BadInputError, DayzeroError, NotFoundError
from dayzero.ports.catalog import WorkerToken, Workforce
from dayzero.ports.ledger import Ledger
from dayzero.web.shown_tokens import mark_token

SCOPE = "worker"
HTTP_UNAUTHORIZED = 401
HTTP_FORBIDDEN = 403
HTTP_TOO_LARGE = 413
HTTP_PARTIAL = 206
HTTP_NOT_SATISFIABLE = 416
Noun = TypeVar("Noun")
logger = logging.getLogger(__name__)


def refusal(kind: str, message: str, status: int, remedy: str | None = None) -> Response:
    """The answer to what is refused: kind, sentence and remedy, and nothing of our insides."""
    return Response(dump(Refusal(kind, message, remedy)), status, media_type="application/json")


def error_answer(_request: Request, error: Exception) -> Response:
    """Every error as a Refusal; what is not ours is logged here and told without its text."""
    if isinstance(error, DayzeroError):
        kind = next(kind for kind in type(error).__mro__ if kind in STATUS)
        return refusal(kind.__name__, error.message, STATUS[kind], error.remedy)
    if isinstance(error, StarletteHTTPException):
        return refusal("HttpError", str(error.detail), error.status_code)
    logger.error("the ledger failed: %s", type(error).__name__, exc_info=error)
    return refusal("InternalError", "the control plane failed; its log says why.", 500)


async def limited_body(request: Request, limit: int) -> bytes:
    """The body, refused as soon as it is larger than the limit, whatever its header says."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise HTTPException(HTTP_TOO_LARGE, f"the body is larger than {limit} bytes.")
    return bytes(body)


async def json_body(request: Request) -> bytes:
    """A JSON body within its limit."""
    return await limited_body(request, MAX_JSON_BYTES)


async def artifact_body(request: Request) -> bytes:
    """An artifact's bytes within their limit."""
    return await limited_body(request, MAX_ARTIFACT_BYTES)


Body = Annotated[bytes, Depends(json_body)]
ArtifactBody = Annotated[bytes, Depends(artifact_body)]


def answer(noun: object) -> Response:
    """A noun as the answer."""
    return Response(dump(noun), media_type="application/json")


def token_check(workforce: Workforce) -> Callable[[Request], WorkerToken]:
    """A dependency that demands a worker's token."""

    def check(request: Request) -> WorkerToken:
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        allowed = workforce.check_token(token) if kind.lower() == "bearer" and token else None
        mark_token(request, good=allowed is not None)
        if allowed is None:
            raise HTTPException(HTTP_UNAUTHORIZED, "the ledger needs a token; this one is unknown or has expired.")
        if allowed.scope != SCOPE:
            raise HTTPException(HTTP_FORBIDDEN, f"a token with scope {allowed.scope} may not use the ledger.")
        return allowed

    return check


class Guard:
    """Lets a token reach only what belongs to its platform."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def platform(self, token: WorkerToken, platform: str) -> None:
        """403 for another platform."""
        if token.platform != platform:
            raise HTTPException(HTTP_FORBIDDEN, f"a token for {token.platform} may not touch what belongs to {platform}.")

    def adaptation(self, token: WorkerToken, adaptation_id: str) -> None:
        """403 for an adaptation of another platform."""
        self.platform(token, self._ledger.adaptation(adaptation_id).platform)

    def lease(self, token: WorkerToken, lease: Lease) -> Lease:
        """The lease, if it is for the token's platform."""
        self.adaptation(token, lease.adaptation_id)
        return lease


def ledger_router(ledger: Ledger, workforce: Workforce) -> APIRouter:
    """Routes under /v1/ledger that serve a ledger to workers with tokens."""
    router = APIRouter(prefix=PREFIX)
    demand = token_check(workforce)
    guard = Guard(ledger)
    _add_adaptation_routes(router, ledger, demand, guard)
    _add_result_routes(router, ledger, demand, guard)
    _add_evidence_routes(router, ledger, demand, guard)
    _add_platform_routes(router, ledger, workforce, demand, guard)
    return router


Demand = Callable[[Request], WorkerToken]


def _add_adaptation_routes(router: APIRouter, ledger: Ledger, demand: Demand, guard: Guard) -> None:
    @router.get("/releases/{release_id}")
    def release(release_id: str, token: WorkerToken = Depends(demand)) -> Response:
        return answer(ledger.release(release_id))

    @router.get("/adaptations/{adaptation_id}")
    def adaptation(adaptation_id: str, token: WorkerToken = Depends(demand)) -> Response:
        found = ledger.adaptation(adaptation_id)
        guard.platform(token, found.platform)
        return answer(found)

    @router.post("/adaptations/{adaptation_id}/claim")
    def claim(adaptation_id: str, body: Body, token: WorkerToken = Depends(demand)) -> Response:
        guard.adaptation(token, adaptation_id)
        asked = load(Claim, body)
        return answer(ledger.claim(adaptation_id, asked.attempt, asked.claimant))

    @router.post("/heartbeats")
    def heartbeat(body: Body, token: WorkerToken = Depends(demand)) -> Response:
        beat = load(Heartbeat, body)
        ledger.heartbeat(guard.lease(token, beat.lease), beat.stage)
        return Response(status_code=204)

    @router.post("/log")
    def log(body: Body, token: WorkerToken = Depends(demand)) -> Response:
        line = load(LogLine, body)
        ledger.log(guard.lease(token, line.lease), line.message[:MAX_LOG_BYTES])
        return Response(status_code=204)


def _add_result_routes(router: APIRouter, ledger: Ledger, demand: Demand, guard: Guard) -> None:
    @router.post("/results/find")
    def find(body: Body, token: WorkerToken = Depends(demand)) -> Response:
        found = ledger.find_result(load(ResultKey, body))
        return answer(FoundResult(None if found is None else to_wire(found)))

    @router.put("/results")
    def put(body: Body, token: WorkerToken = Depends(demand)) -> Response:
        new = load(NewResult, body)
        _require_json(new.document)
        return answer(to_wire(ledger.put_result(new.key, new.document.encode(), guard.lease(token, new.lease))))

    @router.put("/links")
    def link(body: Body, token: WorkerToken = Depends(demand)) -> Response:
        new = load(ResultLink, body)
        lease = guard.lease(token, new.lease)
        stored = ledger.find_result(new.key)
        if stored is None:
            raise NotFoundError(f"there is no result of stage {new.key.stage} under that key.")
        ledger.link_result(stored, lease)
        return Response(status_code=204)

    @router.get("/adaptations/{adaptation_id}/results")
    def linked(adaptation_id: str, token: WorkerToken = Depends(demand)) -> Response:
        guard.adaptation(token, adaptation_id)
        return answer(tuple(to_wire(stored) for stored in ledger.linked_results(adaptation_id)))


def _add_evidence_routes(router: APIRouter, ledger: Ledger, demand: Demand, guard: Guard) -> None:
    @router.put("/checks")
    def put_check(body: Body, token: WorkerToken = Depends(demand)) -> Response:
        new = load(NewCheck, body)
        ledger.put_check(new.check, guard.lease(token, new.lease))
        return Response(status_code=204)

    @router.get("/adaptations/{adaptation_id}/checks")
    def checks(adaptation_id: str, token: WorkerToken = Depends(demand)) -> Response:
        guard.adaptation(token, adaptation_id)
        return answer(tuple(ledger.checks(adaptation_id)))

    @router.put("/measurements")
    def put_measurement(body: Body, token: WorkerToken = Depends(demand)) -> Response:
        new = load(NewMeasurement, body)
        ledger.put_measurement(new.measurement, guard.lease(token, new.lease))
        return Response(status_code=204)

    @router.get("/adaptations/{adaptation_id}/measurements")
    def measurements(adaptation_id: str, token: WorkerToken = Depends(demand)) -> Response:
        guard.adaptation(token, adaptation_id)
        return answer(tuple(ledger.measurements(adaptation_id)))

    @router.post("/artifacts")
    def put_artifact(request: Request, body: ArtifactBody, token: WorkerToken = Depends(demand)) -> Response:
        lease = guard.lease(token, load(Lease, unquote(request.headers.get("X-Dayzero-Lease", ""))))
        media_type = unquote(request.headers.get("X-Dayzero-Media-Type", "application/octet-stream"))
        name = unquote(request.headers.get("X-Dayzero-Name", "artifact"))
        return answer(StoredArtifact(ledger.put_artifact(body, media_type=media_type, name=name, lease=lease)))

    @router.get("/artifacts/{sha256}")
    def artifact(sha256: str, request: Request, token: WorkerToken = Depends(demand)) -> Response:
        return ranged(ledger.artifact(sha256), request.headers.get("Range"))


def _add_platform_routes(router: APIRouter, ledger: Ledger, workforce: Workforce, demand: Demand, guard: Guard) -> None:
    @router.put("/manifest")
    def put_manifest(body: Body, token: WorkerToken = Depends(demand)) -> Response:
        offer = load(Offer, body)
        guard.platform(token, offer.stack.platform)
        ledger.put_manifest(offer.manifest, offer.stack)
        return Response(status_code=204)

    @router.put("/manifest/samples")
    def add_samples(body: Body, token: WorkerToken = Depends(demand)) -> Response:
        new = load(NewSamples, body)
        guard.platform(token, new.stack.platform)
        ledger.add_samples(new.stack, new.under, new.facts)
        return Response(status_code=204)

    @router.get("/manifest/{platform}")
    def manifest(platform: str, token: WorkerToken = Depends(demand)) -> Response:
        guard.platform(token, platform)
        found = ledger.manifest(platform)
        return answer(KnownOffer(None if found is None else Offer(*found)))

    @router.post("/workers")
    def alive(body: Body, token: WorkerToken = Depends(demand)) -> Response:
        worker = load(Alive, body)
        guard.platform(token, worker.platform)
        workforce.worker_seen(worker.worker_id, worker.platform, worker.stack_fingerprint, worker.devices)
        return Response(status_code=204)


def ranged(data: bytes, asked: str | None) -> Response:
    """The bytes, or the part that a Range header of the form `bytes=BEGIN-[END]` asks for; other forms get all."""
    media_type = "application/octet-stream"
    unit, _, span = (asked or "").partition("=")
    begin_text, dash, end_text = span.partition("-")
    if unit != "bytes" or not dash or not begin_text.isdecimal() or not (end_text.isdecimal() or not end_text):
        return Response(data, media_type=media_type, headers={"Accept-Ranges": "bytes"})
    begin = int(begin_text)
    end = min(int(end_text) + 1 if end_text else len(data), len(data))
    if begin > len(data) or end < begin:
        return Response(status_code=HTTP_NOT_SATISFIABLE, headers={"Content-Range": f"bytes */{len(data)}"})
    headers = {"Content-Range": f"bytes {begin}-{end - 1}/{len(data)}", "Accept-Ranges": "bytes"}
    return Response(data[begin:end], HTTP_PARTIAL, headers, media_type)


def _require_json(document: str) -> None:
    try:
        json.loads(document)
    except ValueError as error:
        raise BadInputError("a result's document is not JSON.") from error
