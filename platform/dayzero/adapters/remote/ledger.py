"""A Ledger that lives behind the control plane's HTTP door."""

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TypeVar
from urllib.parse import quote

import httpx
import tenacity

from dayzero.adapters.remote.wire import (
    KINDS,
    MAX_ARTIFACT_BYTES,
    MAX_JSON_BYTES,
    PREFIX,
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
    WireResult,
)
from dayzero.codec import dump, load
from dayzero.domain.adaptation import Adaptation, Lease
from dayzero.domain.operators import OperatorManifest
from dayzero.domain.platforms import Stack
from dayzero.domain.release import Release
from dayzero.domain.results import ResultKey, StoredResult
from dayzero.domain.sampling import CallFact
from dayzero.domain.verdict import Check, Measurement
from dayzero.errors import (
    BadInputError,
    BlockedError,
    DayzeroError,
    IntegrityError,
    NotFoundError,
    StaleAttemptError,
    UnavailableError,
)

Noun = TypeVar("Noun")
TIMEOUT_S = 60.0
RETRIES = 6
RETRY_FIRST_S = 0.25
RETRY_LONGEST_S = 10.0


class HttpLedger:
    """The Ledger port over HTTP, with a scoped token; every write is safe to send twice, so all are retried.

    UnavailableError when the control plane does not answer after `retries` tries; BlockedError when it refuses the token.
    """

    def __init__(
        self, base_url: str, token: str, *, transport: httpx.BaseTransport | None = None, retries: int = RETRIES
    ) -> None:
        self._url = base_url.rstrip("/")
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        # Proxies from the environment would see the token.
        self._client = httpx.Client(
            base_url=self._url + PREFIX, headers=headers, timeout=TIMEOUT_S, transport=transport, trust_env=False
        )
        self._retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(UnavailableError),
            stop=tenacity.stop_after_attempt(retries),
            wait=tenacity.wait_exponential_jitter(multiplier=RETRY_FIRST_S, max=RETRY_LONGEST_S, jitter=RETRY_FIRST_S),
            reraise=True,
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def release(self, release_id: str) -> Release:
        """See Ledger."""
        return self._get(Release, f"/releases/{_part(release_id)}")

    def adaptation(self, adaptation_id: str) -> Adaptation:
        """See Ledger."""
        return self._get(Adaptation, f"/adaptations/{_part(adaptation_id)}")

    def claim(self, adaptation_id: str, attempt: int, claimant: str) -> Lease:
        """See Ledger."""
        return load(Lease, self._send("POST", f"/adaptations/{_part(adaptation_id)}/claim", Claim(attempt, claimant)))

    def heartbeat(self, lease: Lease, stage: str | None) -> None:
        """See Ledger."""
        self._send("POST", "/heartbeats", Heartbeat(lease, stage))

    def find_result(self, key: ResultKey) -> StoredResult | None:
        """See Ledger."""
        found = load(FoundResult, self._send("POST", "/results/find", key)).result
        return None if found is None else _from_wire(found)

    def put_result(self, key: ResultKey, document: bytes, lease: Lease) -> StoredResult:
        """See Ledger."""
        return _from_wire(load(WireResult, self._send("PUT", "/results", NewResult(key, document.decode(), lease))))

    def link_result(self, result: StoredResult, lease: Lease) -> None:
        """See Ledger."""
        self._send("PUT", "/links", ResultLink(result.key, lease))

    def linked_results(self, adaptation_id: str) -> Sequence[StoredResult]:
        """See Ledger."""
        return tuple(
            _from_wire(item) for item in self._get(tuple[WireResult, ...], f"/adaptations/{_part(adaptation_id)}/results")
        )

    def put_check(self, check: Check, lease: Lease) -> None:
        """See Ledger."""
        self._send("PUT", "/checks", NewCheck(check, lease))

    def put_measurement(self, measurement: Measurement, lease: Lease) -> None:
        """See Ledger."""
        self._send("PUT", "/measurements", NewMeasurement(measurement, lease))

    def put_artifact(self, data: bytes, *, media_type: str, name: str, lease: Lease) -> str:
        """See Ledger; BadInputError above MAX_ARTIFACT_BYTES."""
        if len(data) > MAX_ARTIFACT_BYTES:
            raise BadInputError(f"artifact {name} has {len(data)} bytes; the ledger takes {MAX_ARTIFACT_BYTES}.")
        headers = {
            "Content-Type": "application/octet-stream",
            "X-Dayzero-Media-Type": quote(media_type, safe="/+.; ="),
            "X-Dayzero-Name": quote(name, safe=""),
            "X-Dayzero-Lease": quote(dump(lease).decode(), safe='{}":,'),
        }
        return load(StoredArtifact, self._request("POST", "/artifacts", data, headers)).sha256

    def artifact(self, sha256: str) -> bytes:
        """See Ledger; a connection that breaks goes on where it stopped; IntegrityError when the bytes are others."""
        data = bytearray()
        for attempt in self._retrying.copy():
            with attempt:
                self._append_rest(f"/artifacts/{_part(sha256)}", data)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise IntegrityError(f"artifact {sha256[:12]} from {self._url} has other bytes than its digest says.")
        return bytes(data)

    def put_manifest(self, manifest: OperatorManifest, stack: Stack) -> None:
        """See Ledger."""
        self._send("PUT", "/manifest", Offer(manifest, stack))

    def add_samples(self, stack: Stack, under: str, facts: Sequence[CallFact]) -> None:
        """See Ledger."""
        self._send("PUT", "/manifest/samples", NewSamples(stack, under, tuple(facts)))

    def manifest(self, platform: str) -> tuple[OperatorManifest, Stack] | None:
        """See Ledger."""
        offer = self._get(KnownOffer, f"/manifest/{_part(platform)}").offer
        return None if offer is None else (offer.manifest, offer.stack)

    def checks(self, adaptation_id: str) -> Sequence[Check]:
        """See Ledger."""
        return self._get(tuple[Check, ...], f"/adaptations/{_part(adaptation_id)}/checks")

    def measurements(self, adaptation_id: str) -> Sequence[Measurement]:
        """See Ledger."""
        return self._get(tuple[Measurement, ...], f"/adaptations/{_part(adaptation_id)}/measurements")

    def log(self, lease: Lease, message: str) -> None:
        """See Ledger."""
        self._send("POST", "/log", LogLine(lease, message))

    def worker_seen(self, worker_id: str, platform: str, stack_fingerprint: str, devices: int) -> None:
        """Say that this worker lives."""
        self._send("POST", "/workers", Alive(worker_id, platform, stack_fingerprint, devices))

    def _get(self, noun: type[Noun], path: str) -> Noun:
        return load(noun, self._request("GET", path, None, {}))

    def _send(self, method: str, path: str, noun: object) -> bytes:
        body = dump(noun)
        if len(body) > MAX_JSON_BYTES:
            raise BadInputError(f"a {type(noun).__name__} of {len(body)} bytes is too large for the ledger ({MAX_JSON_BYTES}).")
        return self._request(method, path, body, {})

    def _request(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> bytes:
        for attempt in self._retrying.copy():
            with attempt:
                return self._once(method, path, body, headers)
        raise AssertionError("tenacity raises after its last try")

    def _once(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> bytes:
        with self._answering(), self._client.stream(method, path, content=body, headers=headers) as response:
            data = _limited(response, MAX_JSON_BYTES)
            self._check(response, data)
            return data

    def _append_rest(self, path: str, data: bytearray) -> None:
        headers = {"Range": f"bytes={len(data)}-"} if data else {}
        with self._answering(), self._client.stream("GET", path, headers=headers) as response:
            if not response.is_success:
                self._check(response, _limited(response, MAX_JSON_BYTES))
            if response.status_code != httpx.codes.PARTIAL_CONTENT:
                data.clear()
            for chunk in response.iter_bytes():
                data += chunk
                if len(data) > MAX_ARTIFACT_BYTES:
                    raise BadInputError(f"an artifact from {self._url} is larger than {MAX_ARTIFACT_BYTES} bytes.")

    @contextlib.contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except httpx.TransportError as error:
            raise UnavailableError(
                f"the control plane at {self._url} does not answer ({type(error).__name__}).",
                remedy="Start it with `dayzero up`, or correct DAYZERO_LEDGER_URL.",
            ) from error
        except httpx.InvalidURL as error:
            raise BadInputError(
                f"{self._url} is no address of a control plane.", remedy="Correct DAYZERO_LEDGER_URL."
            ) from error

    def _check(self, response: httpx.Response, data: bytes) -> None:
        if response.is_success:
            return
        status = response.status_code
        try:
            refusal = load(Refusal, data)
        except BadInputError:
            refusal = Refusal("", f"{self._url} answered {status} without saying why.")
        if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            raise BlockedError(
                refusal.message, remedy="Issue a token for this platform with `dayzero worker token`, and join with it."
            )
        if status == httpx.codes.CONFLICT:
            raise StaleAttemptError(refusal.message)
        unnamed = NotFoundError if status == httpx.codes.NOT_FOUND else BadInputError
        kind: type[DayzeroError] = KINDS.get(refusal.kind, unnamed)
        if status >= httpx.codes.INTERNAL_SERVER_ERROR or status == httpx.codes.TOO_MANY_REQUESTS:
            kind = UnavailableError
        raise kind(refusal.message, remedy=refusal.remedy)


def _part(text: str) -> str:
    return quote(text, safe="")


def _limited(response: httpx.Response, limit: int) -> bytes:
    data = bytearray()
    for chunk in response.iter_bytes():
        data += chunk
        if len(data) > limit:
            raise BadInputError(f"{response.url.host} answered with more than {limit} bytes.")
    return bytes(data)


def _from_wire(found: WireResult) -> StoredResult:
    created = datetime.fromisoformat(found.created_at)
    return StoredResult(
        found.id, found.key, found.document.encode(), created, found.reused, found.first_attempt, found.last_attempt
    )
