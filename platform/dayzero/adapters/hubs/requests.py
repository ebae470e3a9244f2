"""Requests to a Hugging Face hub, over huggingface_hub's session: bounded retries, and errors that speak to the operator."""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TypeVar

import httpx2
from huggingface_hub import get_session
from huggingface_hub.errors import OfflineModeIsEnabled
from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]  # re-exported without saying so
from tenacity import RetryCallState, Retrying, retry_if_exception_type

from dayzero.errors import BadInputError, BlockedError, DayzeroError, DependencyError, NotFoundError, UnavailableError

_PROGRESS_BYTES = 1 << 20
LONGEST_WAIT_S = 60.0
"""A hub that asks for a longer wait is given up for now; the error carries the wait."""

ODD_ANSWER = "See whether DAYZERO_HF_ENDPOINT is a hub and no proxy changes its answers; if it stays so, take another endpoint."
"""What to do about a hub that does not keep to its protocol."""

_SLOWEST_SMALL_ANSWER = 4
"""A small answer may take this many timeouts in all; a hub that drips bytes counts as down."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class HubAccess:
    """How a hub is asked: its endpoint, the token (None: anonymous), the timeout and the number of retries."""

    endpoint: str
    token: str | None
    timeout_s: float
    retries: int
    first_wait_s: float = 0.5

    def headers(self) -> dict[str, str]:
        """Headers of every request; bodies come as they are, so that sizes and digests hold."""
        token: str | bool = self.token if self.token else False
        return {**build_hf_headers(token=token, library_name="dayzero"), "Accept-Encoding": "identity"}


class Patience:
    """How long to go on asking: `retries` failures in a row, counted anew after each MiB of progress (`done_bytes` tells)."""

    def __init__(self, access: HubAccess, done_bytes: Callable[[], int] = lambda: 0) -> None:
        self._access, self._done_bytes = access, done_bytes
        self._counted_from = done_bytes()
        self._failures = 0

    def wait_s(self, state: RetryCallState) -> float:
        """Count a failure; the wait that the hub asked for, else twice the last. A wait that is too long ends the asking."""
        if self._done_bytes() - self._counted_from >= _PROGRESS_BYTES:
            self._counted_from, self._failures = self._done_bytes(), 0
        self._failures += 1
        error = state.outcome.exception() if state.outcome else None
        asked = error.retry_after_s if isinstance(error, DayzeroError) else None
        if asked is None:
            return min(self._access.first_wait_s * 2.0 ** min(self._failures - 1, 30), LONGEST_WAIT_S)
        if asked > LONGEST_WAIT_S:
            assert error is not None
            raise error
        # Many who were sent away together must not come back together.
        return asked + random.uniform(0.0, min(1.0, asked / 10))

    def is_over(self, _: RetryCallState) -> bool:
        """Whether to give up. tenacity asks after wait_s."""
        return self._failures > self._access.retries


def with_retries(access: HubAccess, ask: Callable[[], Answer], patience: Patience | None = None) -> Answer:
    """Ask, and ask again while the hub is unavailable, as long as patience lasts (None: the allowed retries)."""
    patience = patience or Patience(access)
    retrying = Retrying(
        retry=retry_if_exception_type(UnavailableError), stop=patience.is_over, wait=patience.wait_s, reraise=True
    )
    return retrying(ask)


@contextmanager
def answer_of(
    access: HubAccess,
    url: str,
    whose: str,
    *,
    params: Mapping[str, str | list[str]] | None = None,
    byte_range: str | None = None,
) -> Iterator[httpx2.Response]:
    """A streamed answer with status 200 or 206 (416 too, when a range was asked); every other end is one of our errors.

    `whose` names what is asked for in the errors. The body may still break off while it is read: UnavailableError.
    """
    headers = access.headers()
    if byte_range:
        headers["Range"] = byte_range
    try:
        with get_session().stream(
            "GET", url, params=params, headers=headers, timeout=httpx2.Timeout(access.timeout_s)
        ) as response:
            if not (response.status_code in (200, 206) or (byte_range and response.status_code == 416)):
                raise refusal(access, response.status_code, response.headers, url, whose)
            yield response
    except OfflineModeIsEnabled as error:
        raise DependencyError(
            f"{access.endpoint} is not asked for {whose}: HF_HUB_OFFLINE is set.", remedy="Unset HF_HUB_OFFLINE."
        ) from error
    except httpx2.TimeoutException as error:
        raise UnavailableError(
            f"{access.endpoint} did not answer for {whose} within {access.timeout_s:g} s.",
            remedy="Try again later, or raise DAYZERO_HUB_TIMEOUT_S.",
        ) from error
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
        raise BadInputError(
            f"{access.endpoint!r} is no address of a hub: {error}.", remedy="Set DAYZERO_HF_ENDPOINT to an http(s) URL."
        ) from error
    except httpx2.TooManyRedirects as error:
        raise BadInputError(f"{access.endpoint} redirects in circles for {whose}.", remedy=ODD_ANSWER) from error
    except (httpx2.TransportError, httpx2.StreamError, httpx2.DecodingError) as error:
        raise UnavailableError(
            f"{access.endpoint} broke off or cannot be reached for {whose}: {str(error) or type(error).__name__}.",
            remedy="See whether the hub is up and DAYZERO_HF_ENDPOINT is right; it is tried again.",
        ) from error


def small_answer(
    access: HubAccess, url: str, whose: str, max_bytes: int, params: Mapping[str, str | list[str]] | None = None
) -> tuple[bytes, Mapping[str, str]]:
    """A whole small body and its headers, with retries. BadInputError above max_bytes."""

    def ask() -> tuple[bytes, Mapping[str, str]]:
        deadline = time.monotonic() + _SLOWEST_SMALL_ANSWER * access.timeout_s
        with answer_of(access, url, whose, params=params) as response:
            body = bytearray()
            for window in response.iter_raw():
                body += window
                if len(body) > max_bytes:
                    raise BadInputError(f"{access.endpoint} sent more than {max_bytes} bytes for {whose}.", remedy=ODD_ANSWER)
                if time.monotonic() > deadline:
                    raise UnavailableError(
                        f"{access.endpoint} is too slow: {len(body)} bytes of {whose} in"
                        f" {_SLOWEST_SMALL_ANSWER * access.timeout_s:g} s.",
                        remedy="Try again later, or raise DAYZERO_HUB_TIMEOUT_S.",
                    )
            return bytes(body), response.headers

    return with_retries(access, ask)


def refusal(access: HubAccess, status: int, headers: Mapping[str, str], url: str, whose: str) -> DayzeroError:
    """What a status that is no success means to the operator."""
    code = headers.get("X-Error-Code", "")
    where = f"{whose} at {access.endpoint}"
    said = f" ({headers['X-Error-Message'][:200]})" if "X-Error-Message" in headers else ""
    if status in (401, 403) and code != "RepoNotFound":
        return _closed(access, where, status, code, _page(access, url))
    if status == 404 or code == "RepoNotFound":
        return NotFoundError(f"there is no {where}{said}.", remedy="See whether name and revision are right.")
    if status == 429:
        wait_s = retry_after_s(headers)
        when = f" for {wait_s:g} s" if wait_s is not None else ""
        return UnavailableError(
            f"{access.endpoint} asks to be left alone{when} (429) about {whose}.",
            remedy="It is tried again after that; a token (DAYZERO_HF_TOKEN) raises the limit.",
            retry_after_s=wait_s,
        )
    if status >= 500 or status == 408:
        return UnavailableError(
            f"{access.endpoint} failed with status {status} for {whose}{said}.",
            remedy="Try again later.",
            retry_after_s=retry_after_s(headers),
        )
    return BadInputError(f"{access.endpoint} answered with status {status} for {whose}{said}.", remedy=ODD_ANSWER)


def _page(access: HubAccess, url: str) -> str:
    """The page of the repository that a URL of the hub belongs to, where its licence and its gate are."""
    path = url.removeprefix(access.endpoint).removeprefix("/api/models")
    return access.endpoint + path.partition("/resolve/")[0].partition("/revision/")[0].partition("?")[0]


def _closed(access: HubAccess, where: str, status: int, code: str, page: str) -> BlockedError:
    if code == "GatedRepo" or status == 403:
        return BlockedError(
            f"{where} is gated (status {status}).",
            remedy=f"Accept its licence on {page}, then set DAYZERO_HF_TOKEN to a token of that account.",
        )
    token = "the token is not accepted" if access.token else "it wants a token"
    return BlockedError(
        f"{where} is closed to us (status {status}): {token}.",
        remedy=f"Set DAYZERO_HF_TOKEN to a token that may read {page}.",
    )


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """The wait that a Retry-After header asks for: seconds, or until a date (RFC 9110, 10.2.3); None without a usable one."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
