"""Streams of ranges, from honest and hostile hubs: exact bytes in order, bounded ahead, one clear error."""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dayzero.adapters.hubs.directory import DirectoryHub
from dayzero.adapters.hubs.hugging_face import HuggingFaceHub
from dayzero.adapters.hubs.lines import LineLimits
from dayzero.adapters.hubs.serving import HubServer, serve_app
from dayzero.adapters.hubs.streaming import AHEAD_BYTES
from dayzero.errors import BadInputError, BlockedError, DayzeroError, DependencyError, IntegrityError, UnavailableError
from hostile_hub import HostileHub
from hub_counter import CountingHub
from hub_models import BIG_BYTES, REPO, Published, fill, noise, repo_files

pytestmark = pytest.mark.hub
SHARD = "model-00001-of-00002.safetensors"
WHOLE = ((0, BIG_BYTES),)
APART = ((0, 1), (7, 1000), (1000, 1001), (1 << 20, 4 << 20), (BIG_BYTES - 3, BIG_BYTES))


def hub_at(url: str, *, timeout_s: float = 20.0, retries: int = 1, limits: LineLimits | None = None) -> HuggingFaceHub:
    return HuggingFaceHub(url, None, timeout_s=timeout_s, retries=retries, first_wait_s=0.01, limits=limits)


def taken(stream: Iterator[tuple[int, memoryview]], ranges: Sequence[tuple[int, int]]) -> bytes:
    """All bytes, checked to come in order and without gaps inside the ranges."""
    content = bytearray()
    expected = (at for begin, end in ranges for at in (begin, end))
    begin, end = next(expected), next(expected)
    for offset, window in stream:
        if begin == end:
            begin, end = next(expected), next(expected)
        assert offset == begin and offset + len(window) <= end and len(window)
        begin += len(window)
        content += window
    assert begin == end and next(expected, None) is None
    return bytes(content)


def slices(content: bytes, ranges: Sequence[tuple[int, int]]) -> bytes:
    return b"".join(content[begin:end] for begin, end in ranges)


@pytest.mark.parametrize("connections", [1, 3])
@pytest.mark.parametrize("ranges", [WHOLE, APART])
def test_ranges_come_in_order_and_once(published: Published, ranges: Sequence[tuple[int, int]], connections: int) -> None:
    hub = hub_at(published.url)
    release = hub.release(REPO, None)
    got = taken(hub.stream(release, SHARD, ranges, connections=connections), ranges)
    assert got == slices(repo_files()[SHARD], ranges)
    assert published.hub.sent_bytes(SHARD) == len(got)
    folder = DirectoryHub(published.folder / REPO)
    local = folder.release(str(published.folder / REPO), None)
    assert taken(folder.stream(local, SHARD, ranges), ranges) == got


def test_parts_side_by_side_make_one_stream_and_stay_bounded(tmp_path: Path) -> None:
    content = noise(8 * AHEAD_BYTES + 3, b"long")
    fill(tmp_path / "models", REPO, {"model.safetensors": content, "config.json": b"{}"})
    with CountingHub(tmp_path / "models") as server:
        hub = hub_at(server.url)
        release = hub.release(REPO, None)
        ranges = ((5, 3 * AHEAD_BYTES), (4 * AHEAD_BYTES, len(content)))
        assert taken(hub.stream(release, "model.safetensors", ranges, connections=3), ranges) == slices(content, ranges)
        sent = server.sent_bytes("model.safetensors")
        assert sent == sum(end - begin for begin, end in ranges)
        with closing(hub.stream(release, "model.safetensors", ((0, len(content)),), connections=2)) as stream:
            next(iter(stream))
            time.sleep(0.5)
        assert server.sent_bytes("model.safetensors") - sent <= 3 * AHEAD_BYTES, "nobody read on, and still it was fetched"


def test_bandwidth_and_connections_have_limits(published: Published) -> None:
    hub = hub_at(published.url, limits=LineLimits(connections=2, bytes_per_s=20e6))
    release = hub.release(REPO, None)
    started = time.monotonic()
    taken(hub.stream(release, SHARD, WHOLE), WHOLE)
    assert time.monotonic() - started >= BIG_BYTES / 20e6 * 0.9, "a limit is a fact, not a timing of ours"


class Callers:
    """Remembers who asked for weights."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.seen: set[tuple[str, int]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].endswith(".safetensors"):
            self.seen.add(scope["client"])
        await self.app(scope, receive, send)


def test_no_more_connections_than_allowed(tmp_path: Path) -> None:
    content = noise(12 * AHEAD_BYTES, b"many")
    fill(tmp_path / "models", REPO, {"model.safetensors": content, "config.json": b"{}"})
    callers = Callers(serve_app(tmp_path / "models"))
    with HubServer(tmp_path / "models", app=callers) as server:
        hub = hub_at(server.url, limits=LineLimits(connections=2))
        release = hub.release(REPO, None)
        ranges = ((0, len(content)),)
        assert taken(hub.stream(release, "model.safetensors", ranges, connections=8), ranges) == content
    assert len(callers.seen) == 2


STREAMED: list[tuple[str, Sequence[tuple[int, int]], type[DayzeroError] | None, str]] = [
    ("rate-limited", WHOLE, None, ""),
    ("flaky", WHOLE, None, ""),
    ("cut-once", WHOLE, None, ""),
    ("ignores-range", WHOLE, None, ""),
    ("ignores-range", APART, None, ""),
    ("truncated", WHOLE, UnavailableError, "sent|broke off"),
    ("short", WHOLE, IntegrityError, "the hub cuts the range: it sends"),
    ("wrong-range", APART, IntegrityError, "was to send"),
    ("failing", WHOLE, UnavailableError, "status 500"),
    ("gated", WHOLE, BlockedError, r"gated.*Accept its licence on http://127.0.0.1:\d+/acme/tiny, then"),
    ("stalling", WHOLE, UnavailableError, "did not answer|broke off"),
    ("rate-limited-long", WHOLE, UnavailableError, "left alone for 3600 s"),
]


@pytest.mark.parametrize("behaviour, ranges, error, says", STREAMED, ids=[f"{one[0]}-{len(one[1])}" for one in STREAMED])
def test_what_a_hub_does_wrong_is_mended_or_named(
    tmp_path: Path, behaviour: str, ranges: Sequence[tuple[int, int]], error: type[DayzeroError] | None, says: str
) -> None:
    fill(tmp_path / "models", REPO, repo_files())
    with HubServer(tmp_path / "models") as honest:
        release = hub_at(honest.url).release(REPO, None)
    with HostileHub(behaviour, tmp_path / "models") as hostile:
        hub = hub_at(hostile.url, timeout_s=1.0, retries=2)
        if error is None:
            got = taken(hub.stream(release, SHARD, ranges), ranges)
            assert got == slices(repo_files()[SHARD], ranges)
            return
        with pytest.raises(error, match=says):
            taken(hub.stream(release, SHARD, ranges), ranges)


def answered(change: Callable[[Message, Scope], Message]) -> Callable[[ASGIApp], ASGIApp]:
    """Middleware that changes the first message of answers for weights."""

    def wrap(app: ASGIApp) -> ASGIApp:
        async def changed(scope: Scope, receive: Receive, send: Send) -> None:
            async def sending(message: Message) -> None:
                await send(change(message, scope) if message["type"] == "http.response.start" else message)

            of_weights = scope["type"] == "http" and scope["path"].endswith(".safetensors")
            await app({**scope, "extensions": {}}, receive, sending if of_weights else send)

        return changed

    return wrap


def with_header(name: bytes, value: Callable[[], bytes]) -> Callable[[Message, Scope], Message]:
    def change(message: Message, scope: Scope) -> Message:
        headers: list[Any] = [(key, old) for key, old in message["headers"] if key.lower() != name]
        return {**message, "headers": [*headers, (name, value())]}

    return change


COUNTED = itertools.count()
CHANGED = [
    ("another commit", with_header(b"x-repo-commit", lambda: b"1" * 40), "asked for commit"),
    ("another digest", with_header(b"x-linked-etag", lambda: b'"' + b"a" * 64 + b'"'), "it had the digest"),
    ("another version", with_header(b"etag", lambda: b'"v%d"' % next(COUNTED)), "the file was .* and is"),
    ("an encoded body", with_header(b"content-encoding", lambda: b"gzip"), "encoded"),
]


@pytest.mark.parametrize("change, says", [one[1:] for one in CHANGED], ids=[one[0] for one in CHANGED])
def test_a_file_that_changed_under_its_revision_is_refused(
    tmp_path: Path, change: Callable[[Message, Scope], Message], says: str
) -> None:
    fill(tmp_path / "models", REPO, repo_files())
    app = answered(change)(serve_app(tmp_path / "models"))
    with HubServer(tmp_path / "models", app=app) as server:
        hub = hub_at(server.url)
        release = hub.release(REPO, None)
        with pytest.raises(IntegrityError, match=says):
            taken(hub.stream(release, SHARD, APART), APART)


def test_a_redirect_is_followed_and_the_token_stays_home(published: Published, tmp_path: Path) -> None:
    """Content servers: the hub answers with a signed address on another host, which expires."""
    elsewhere = published.hub

    def moved(app: ASGIApp) -> ASGIApp:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http" or not scope["path"].endswith(".safetensors"):
                await app(scope, receive, send)
                return
            target = f"{elsewhere.url}{scope['path']}".encode()
            await send(
                {"type": "http.response.start", "status": 302, "headers": [(b"location", target), (b"content-length", b"0")]}
            )
            await send({"type": "http.response.body", "body": b""})

        return answer

    with CountingHub(published.folder, state=tmp_path / "state", app=moved(serve_app(published.folder))) as server:
        hub = HuggingFaceHub(server.url, "hf_secret", timeout_s=20.0, retries=1, first_wait_s=0.01)
        release = hub.release(REPO, None)
        assert taken(hub.stream(release, SHARD, APART), APART) == slices(repo_files()[SHARD], APART)
        asked = [one for one in server.asked if one.path.endswith(SHARD)]
        assert len(asked) == 1 and asked[0].authorization == "Bearer hf_secret", "the hub is asked once, not for each range"
    there = [one for one in elsewhere.asked if one.path.endswith(SHARD)]
    assert len(there) == len(APART) and {one.authorization for one in there} == {None}


def test_an_expired_address_is_asked_for_again(published: Published, tmp_path: Path) -> None:
    given: list[str] = []

    def moved(app: ASGIApp) -> ASGIApp:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http" or not scope["path"].endswith(".safetensors"):
                await app(scope, receive, send)
                return
            signed = dict(scope["headers"]).get(b"host", b"").decode()
            query = scope["query_string"].decode()
            if query:
                fresh = given.count(query) == 1
                given.append(query)
                if not fresh:
                    await send({"type": "http.response.start", "status": 403, "headers": [(b"content-length", b"0")]})
                    await send({"type": "http.response.body", "body": b""})
                    return
                await app({**scope, "extensions": {}}, receive, send)
                return
            given.append(f"signed={len(given)}")
            target = f"http://{signed}{scope['path']}?{given[-1]}".encode()
            await send(
                {"type": "http.response.start", "status": 302, "headers": [(b"location", target), (b"content-length", b"0")]}
            )
            await send({"type": "http.response.body", "body": b""})

        return answer

    with HubServer(published.folder, app=moved(serve_app(published.folder, tmp_path / "state"))) as server:
        hub = hub_at(server.url, retries=1)
        release = hub.release(REPO, None)
        ranges = APART[:3]
        assert taken(hub.stream(release, SHARD, ranges), ranges) == slices(repo_files()[SHARD], ranges)


def test_nonsense_is_refused_before_anything_is_asked(published: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = hub_at(published.url)
    release = hub.release(REPO, None)
    for ranges in (((5, 5),), ((0, BIG_BYTES + 1),), ((10, 20), (15, 30)), ((-1, 3),)):
        with pytest.raises(BadInputError, match="out of order or beyond"):
            list(hub.stream(release, SHARD, ranges))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(DependencyError, match="HF_HUB_OFFLINE"):
        list(hub.stream(release, SHARD, WHOLE))
