"""Connections to a hub's files: how many, how fast, and what may be taken for an answer."""

import random
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urljoin, urlsplit

import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, LocationValueError, NewConnectionError, ReadTimeoutError

from dayzero.adapters.hubs.requests import LONGEST_WAIT_S, ODD_ANSWER, HubAccess, refusal
from dayzero.domain.release import RepoFile
from dayzero.errors import BadInputError, DayzeroError, IntegrityError, UnavailableError

_MOST_REDIRECTS = 5
_EXPIRED = (401, 403, 410)
"""Statuses by which a content server says that its signed address is no longer valid."""


@dataclass(frozen=True, slots=True)
class LineLimits:
    """How many connections to a hub at once, and how many bytes a second over all of them (None: as many as come)."""

    connections: int = 8
    bytes_per_s: float | None = None


@dataclass(slots=True)
class Place:
    """Where a file of a release lies: its URL on the hub, and what was learnt of it while it was asked for."""

    url: str
    revision: str
    file: RepoFile
    whose: str
    moved_to: str | None = None
    etag: str | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class Lines:
    """The connections to one hub, shared by everything that streams from it."""

    def __init__(self, access: HubAccess, limits: LineLimits) -> None:
        self.access, self.limits = access, limits
        self._free = threading.BoundedSemaphore(limits.connections)
        self._pools: dict[str | None, urllib3.PoolManager] = {}
        self._lock = threading.Lock()
        self._quiet_until = 0.0
        self._may_take_at = 0.0

    @contextmanager
    def answer(self, place: Place, begin: int, end: int) -> Iterator[urllib3.BaseHTTPResponse]:
        """The hub's answer for the bytes [begin, end) of a file: 206 with them, or 200 from the file's start on.

        UnavailableError where trying again may help: a hub that asks for quiet gets it from all connections.
        """
        whose = f"bytes {begin} to {end} of {place.whose}"
        self._be_quiet()
        with self._free:
            try:
                response = self._ask(place, begin, end, whose)
                try:
                    self._check(response, place, begin, end, whose)
                    yield response
                finally:
                    if response.length_remaining:
                        response.close()
                    response.release_conn()
            except UnavailableError as error:
                self._ask_for_quiet(error)
                raise
            except HTTPError as error:
                raise self._spoken(error, whose) from error

    def took(self, count: int) -> None:
        """Account for received bytes; waits when there were more than the limit allows."""
        if self.limits.bytes_per_s is None:
            return
        with self._lock:
            now = time.monotonic()
            self._may_take_at = max(self._may_take_at, now) + count / self.limits.bytes_per_s
            wait_s = self._may_take_at - now
        if wait_s > 0:
            time.sleep(wait_s)

    def _ask(self, place: Place, begin: int, end: int, whose: str) -> urllib3.BaseHTTPResponse:
        """Follow the hub to where the bytes are; the token goes to the hub's own host alone."""
        moved = place.moved_to
        url = moved or place.url
        for _ in range(_MOST_REDIRECTS + 1):
            response = self._get(url, begin, end)
            target = response.headers.get("Location") if response.status in (301, 302, 303, 307, 308) else None
            if target is None:
                break
            self._check_version(response.headers, place, whose)
            response.drain_conn()
            response.release_conn()
            url = urljoin(url, target)
            if urlsplit(url).scheme not in ("http", "https"):
                raise BadInputError(f"{self.access.endpoint} sends us to {url[:100]!r} for {whose}.", remedy=ODD_ANSWER)
        else:
            raise BadInputError(f"{self.access.endpoint} redirects in circles for {whose}.", remedy=ODD_ANSWER)
        if response.status in (200, 206):
            place.moved_to = None if url == place.url else url
            return response
        with response_closed(response):
            if moved is not None and response.status in _EXPIRED:
                place.moved_to = None
                raise UnavailableError(
                    f"the address of {whose} has expired; the hub is asked for a new one.", remedy="It is tried again."
                )
            if response.status == 416:
                raise _changed(f"{whose}: the hub has fewer bytes now (status 416)", place)
            raise refusal(self.access, response.status, response.headers, place.url, whose)

    def _get(self, url: str, begin: int, end: int) -> urllib3.BaseHTTPResponse:
        headers = self.access.headers()
        if urlsplit(url).netloc != urlsplit(self.access.endpoint).netloc:
            headers.pop("authorization", None)
            headers.pop("Authorization", None)
        headers["Range"] = f"bytes={begin}-{end - 1}"
        timeout = urllib3.Timeout(connect=self.access.timeout_s, read=self.access.timeout_s)
        pool = self._pool(url)
        return pool.request(
            "GET", url, headers=headers, timeout=timeout, preload_content=False, redirect=False, retries=False,
            decode_content=False,
        )  # fmt: skip

    def _pool(self, url: str) -> urllib3.PoolManager:
        parts = urlsplit(url)
        proxy = None if urllib.request.proxy_bypass(parts.hostname or "") else urllib.request.getproxies().get(parts.scheme)
        with self._lock:
            if proxy not in self._pools:
                size = self.limits.connections
                self._pools[proxy] = urllib3.ProxyManager(proxy, maxsize=size) if proxy else urllib3.PoolManager(maxsize=size)
            return self._pools[proxy]

    def _check(self, response: urllib3.BaseHTTPResponse, place: Place, begin: int, end: int, whose: str) -> None:
        headers = response.headers
        if place.moved_to is None:
            self._check_version(headers, place, whose)
        if headers.get("Content-Encoding", "identity") != "identity":
            raise IntegrityError(
                f"{self.access.endpoint} sends {whose} encoded, though it was asked not to.", remedy=ODD_ANSWER
            )
        if response.status == 206:
            wanted, got = f"bytes {begin}-{end - 1}/{place.file.size_bytes}", headers.get("Content-Range", "nothing")
            if got.strip().lower() != wanted:
                raise IntegrityError(
                    f"{whose}: the hub was to send {wanted}, and says that it sends {got[:100]}.", remedy=ODD_ANSWER
                )
            length = headers.get("Content-Length", str(end - begin))
            if length != str(end - begin):
                raise IntegrityError(
                    f"{whose}: the hub cuts the range: it sends {length[:20]} of {end - begin} bytes.", remedy=ODD_ANSWER
                )
        elif headers.get("Content-Length", str(place.file.size_bytes)) != str(place.file.size_bytes):
            sent = headers["Content-Length"][:20]
            raise _changed(f"{whose}: the hub sends {sent} bytes of a file that had {place.file.size_bytes}", place)
        etag = headers.get("ETag")
        with place.lock:
            if place.etag is not None and etag is not None and etag != place.etag:
                raise _changed(f"{whose}: the file was {place.etag[:80]}, and is {etag[:80]} now", place)
            place.etag = place.etag or etag

    def _check_version(self, headers: Mapping[str, str], place: Place, whose: str) -> None:
        """What the hub says of the file must be what the release says."""
        commit = headers.get("X-Repo-Commit")
        if commit and commit != place.revision:
            raise _changed(f"{whose}: asked for commit {place.revision[:12]}, the hub answers with {commit[:12]}", place)
        said = headers.get("X-Linked-Etag") or headers.get("ETag") or ""
        digest = said.removeprefix("W/").strip('"').lower()
        known = {64: place.file.sha256, 40: place.file.git_blob_id}.get(len(digest))
        is_digest = all(character in "0123456789abcdef" for character in digest)
        if known is not None and is_digest and digest != known:
            raise _changed(f"{whose}: it had the digest {known[:12]}, and has {digest[:12]} now", place)

    def _be_quiet(self) -> None:
        wait_s = self._quiet_until - time.monotonic()
        if wait_s > 0:
            time.sleep(wait_s + random.uniform(0.0, min(1.0, wait_s / 10)))

    def _ask_for_quiet(self, error: DayzeroError) -> None:
        if error.retry_after_s is not None and error.retry_after_s <= LONGEST_WAIT_S:
            with self._lock:
                self._quiet_until = max(self._quiet_until, time.monotonic() + error.retry_after_s)

    def _spoken(self, error: HTTPError, whose: str) -> DayzeroError:
        endpoint = self.access.endpoint
        if isinstance(error, LocationValueError):
            return BadInputError(f"{endpoint} sends us to no usable address for {whose}: {error}.", remedy=ODD_ANSWER)
        late = isinstance(error, ReadTimeoutError | ConnectTimeoutError) and not isinstance(error, NewConnectionError)
        if late:
            return UnavailableError(
                f"{endpoint} did not answer for {whose} within {self.access.timeout_s:g} s.",
                remedy="Try again later, or raise DAYZERO_HUB_TIMEOUT_S.",
            )
        return UnavailableError(
            f"{endpoint} broke off or cannot be reached for {whose}: {error or type(error).__name__}.",
            remedy="See whether the hub is up and DAYZERO_HF_ENDPOINT is right; it is tried again.",
        )


@contextmanager
def response_closed(response: urllib3.BaseHTTPResponse) -> Iterator[None]:
    """Close the connection of an answer that nobody reads."""
    try:
        yield
    finally:
        response.close()
        response.release_conn()


def _changed(what: str, place: Place) -> IntegrityError:
    return IntegrityError(
        f"{what}: {place.file.path} changed under its revision, or the hub lies.",
        remedy="Nothing of it was kept under its name; resolve the model again and fetch that revision.",
    )
