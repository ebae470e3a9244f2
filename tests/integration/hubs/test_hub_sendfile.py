"""Files by sendfile: the same answers as without it, on connections that stay usable."""

import asyncio
import http.client
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dayzero.adapters.hubs.serving import HubServer
from dayzero.adapters.hubs.serving.server import listen
from hub_models import REPO, fill, noise

CONTENT = noise(3 * (1 << 20) + 5, b"sent")
PATH = f"/{REPO}/resolve/main/model.safetensors"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubServer]:
    fill(tmp_path / "models", REPO, {"model.safetensors": CONTENT, "empty.safetensors": b"", "config.json": b"{}"})
    with HubServer(tmp_path / "models") as server:
        yield server


@pytest.fixture
def asking(hub: HubServer) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection(urlsplit(hub.url).netloc, timeout=20)
    yield connection
    connection.close()


def ask(
    asking: http.client.HTTPConnection, wanted: str | None, path: str = PATH, method: str = "GET", **more: str
) -> tuple[int, bytes, http.client.HTTPResponse]:
    headers = {**({"Range": wanted} if wanted else {}), **{name.replace("_", "-"): value for name, value in more.items()}}
    asking.request(method, path, headers=headers)
    response = asking.getresponse()
    return response.status, response.read(), response


def test_many_answers_on_one_connection(asking: http.client.HTTPConnection) -> None:
    size = len(CONTENT)
    status, body, response = ask(asking, None)
    assert (status, body) == (200, CONTENT) and response.headers["Content-Length"] == str(size)
    for wanted, begin, end in (
        ("bytes=0-0", 0, 1),
        ("bytes=100-2000100", 100, 2_000_101),
        (f"bytes={size - 1}-", size - 1, size),
        ("bytes=-7", size - 7, size),
        (f"bytes=5-{size * 9}", 5, size),
    ):
        status, body, response = ask(asking, wanted)
        assert status == 206 and body == CONTENT[begin:end]
        assert response.headers["Content-Range"] == f"bytes {begin}-{end - 1}/{size}"
    assert ask(asking, f"bytes={size}-")[0] == 416
    status, body, response = ask(asking, None, method="HEAD")
    assert (status, body) == (200, b"") and response.headers["Content-Length"] == str(size)
    assert ask(asking, None, f"/{REPO}/resolve/main/empty.safetensors")[:2] == (200, b"")
    assert ask(asking, None)[1] == CONTENT


def test_a_range_of_another_version_is_the_whole_file(asking: http.client.HTTPConnection) -> None:
    etag = ask(asking, "bytes=0-1")[2].headers["ETag"]
    assert ask(asking, "bytes=3-9", If_Range=etag)[:2] == (206, CONTENT[3:10])
    assert ask(asking, "bytes=3-9", If_Range='"another"')[:2] == (200, CONTENT)


def test_a_client_that_leaves_harms_nobody(hub: HubServer, asking: http.client.HTTPConnection) -> None:
    for _ in range(5):
        leaving = http.client.HTTPConnection(urlsplit(hub.url).netloc, timeout=20)
        leaving.request("GET", PATH)
        leaving.getresponse().read(10)
        leaving.close()
    assert ask(asking, None)[1] == CONTENT


def test_a_file_that_shrinks_on_the_way_is_never_taken_for_whole(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asking: http.client.HTTPConnection
) -> None:
    from dayzero.adapters.hubs.serving import sendfile

    place = tmp_path / "models" / REPO / "model.safetensors"
    whole = sendfile.WeightsResponse._window

    def shrinking(self: sendfile.WeightsResponse, asked: str | None) -> tuple[int, int, int] | None:
        window = whole(self, asked)
        place.write_bytes(CONTENT[:1000])
        return window

    monkeypatch.setattr(sendfile.WeightsResponse, "_window", shrinking)
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        ask(asking, None)


def test_a_real_client_downloads_by_sendfile(hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    huggingface_hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf-home"))
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    place = Path(huggingface_hub.snapshot_download(REPO, endpoint=hub.url, local_dir=tmp_path / "got", token=False))
    assert (place / "model.safetensors").read_bytes() == CONTENT and (place / "empty.safetensors").read_bytes() == b""


def test_small_answers_are_not_held_back() -> None:
    """The kernel would wait 40 ms for the acknowledgement of an answer's head before it sends a short body."""

    async def delay_is_off() -> bool:
        seen: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.set_result(bool(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))
            writer.close()

        with listen("127.0.0.1", 0) as listening:
            async with await asyncio.start_server(connected, sock=listening):
                _, writer = await asyncio.open_connection(*listening.getsockname()[:2])
                answer = await asyncio.wait_for(seen, 20)
                writer.close()
                await writer.wait_closed()
        return answer

    assert asyncio.run(delay_is_off())
