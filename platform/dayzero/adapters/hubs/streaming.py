"""Ranges of a hub's file as a stream of windows: bounded ahead, resumed where it broke off, ended when nobody reads on."""

import itertools
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from threading import Event

import urllib3
from tenacity import Retrying, retry_if_exception_type

from dayzero.adapters.hubs.lines import Lines, Place
from dayzero.adapters.hubs.requests import ODD_ANSWER, Patience
from dayzero.errors import BadInputError, IntegrityError, UnavailableError

WINDOW_BYTES = 1 << 20
AHEAD_BYTES = 8 << 20
"""Length of the parts that are asked for side by side: each connection holds one in memory."""

_REREAD_BYTES = 16 << 20
"""A hub that ignores ranges is read from the start up to here to reach a slice; beyond, the slice is refused."""

_SLOW_BYTES = 64 << 10
"""A connection that brings less in four timeouts counts as down."""

Range = tuple[int, int]
Window = tuple[int, memoryview]


def stream_ranges(lines: Lines, place: Place, ranges: Sequence[Range], connections: int) -> Generator[Window, None, None]:
    """(offset, window) of the ranges of a file, in order; see the Hub port for the errors."""
    before = 0
    for begin, end in ranges:
        if not before <= begin < end <= place.file.size_bytes:
            raise BadInputError(
                f"bytes {begin} to {end} of {place.whose} are asked for out of order or beyond its {place.file.size_bytes}.",
                remedy="Resolve the model again: its headers are others than when the plan was made.",
            )
        before = end
    connections = min(connections, lines.limits.connections)
    if connections > 1 and sum(end - begin for begin, end in ranges) > AHEAD_BYTES:
        return _side_by_side(lines, place, ranges, connections)
    return _in_turn(lines, place, ranges)


def _in_turn(lines: Lines, place: Place, ranges: Sequence[Range]) -> Generator[Window, None, None]:
    for begin, end in ranges:
        yield from _part(lines, place, begin, end, lambda: False)


def _side_by_side(lines: Lines, place: Place, ranges: Sequence[Range], connections: int) -> Generator[Window, None, None]:
    parts = ((at, min(at + AHEAD_BYTES, end)) for begin, end in ranges for at in range(begin, end, AHEAD_BYTES))
    given_up = Event()

    def fetched(begin: int, end: int) -> list[Window]:
        return list(_part(lines, place, begin, end, given_up.is_set))

    coming: deque[Future[list[Window]]] = deque()
    pool = ThreadPoolExecutor(connections, thread_name_prefix="dayzero-range")
    try:
        for begin, end in itertools.islice(parts, connections):
            coming.append(pool.submit(fetched, begin, end))
        while coming:
            windows = coming.popleft().result()
            # Asked for only now that a part is taken: the consumer sets the pace.
            for begin, end in itertools.islice(parts, 1):
                coming.append(pool.submit(fetched, begin, end))
            yield from windows
    finally:
        given_up.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _part(lines: Lines, place: Place, begin: int, end: int, given_up: Callable[[], bool]) -> Generator[Window, None, None]:
    """The windows of one range, asked for again from where it broke off while patience lasts."""
    done = begin
    patience = Patience(lines.access, lambda: done)
    retrying = Retrying(
        retry=retry_if_exception_type(UnavailableError), stop=patience.is_over, wait=patience.wait_s, reraise=True
    )
    for attempt in retrying:
        with attempt, lines.answer(place, done, end) as response, closing(_body(lines, place, response, done, end)) as body:
            if response.status == 200 and begin and done > _REREAD_BYTES:
                raise IntegrityError(
                    f"{lines.access.endpoint} ignores ranges (status 200): it sends {place.whose} from its start instead of"
                    f" byte {done} on, so slices of it cannot be fetched there.",
                    remedy="Fetch whole files from it (without --ranks), or take another endpoint.",
                )
            for window in body:
                yield done, memoryview(window)
                done += len(window)
                if given_up():
                    return
            if done != end:
                raise UnavailableError(
                    f"{lines.access.endpoint} sent {done - begin} of {end - begin} bytes of {place.whose} and ended there.",
                    remedy="The rest is asked for; try again later.",
                )


def _body(lines: Lines, place: Place, response: urllib3.BaseHTTPResponse, begin: int, end: int) -> Generator[bytes, None, None]:
    """What comes, up to the range's end; from the file's start where the range was ignored."""
    at = begin if response.status == 206 else 0
    patience_s = 4 * lines.access.timeout_s
    since, came = time.monotonic(), 0
    while at < end:
        window = response.read1(min(WINDOW_BYTES, end - at))
        if not window:
            return
        lines.took(len(window))
        came += len(window)
        if came >= _SLOW_BYTES:
            since, came = time.monotonic(), 0
        elif time.monotonic() - since > patience_s:
            raise UnavailableError(
                f"{lines.access.endpoint} is too slow: {came} bytes of {place.whose} in {patience_s:g} s.",
                remedy="Try again later, or raise DAYZERO_HUB_TIMEOUT_S.",
            )
        at += len(window)
        if at > begin:
            yield window if at - len(window) >= begin else window[begin - at :]
    if response.status == 206 and response.read1(1):
        raise IntegrityError(
            f"the hub sends more than the bytes {begin} to {end} that were asked for of {place.whose}.", remedy=ODD_ANSWER
        )
