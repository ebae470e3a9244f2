"""What a hostile hub does: middleware over our own hub's app, and edits of the folder that it serves."""

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Message, Receive, Scope, Send

Headers = dict[str, str]
Answer = tuple[int, Headers, bytes]
Change = Callable[[Scope, Answer], Answer]
Where = Callable[[str], bool]


def is_api(path: str) -> bool:
    return path.startswith("/api/models")


def is_model(path: str) -> bool:
    return path.startswith("/api/models/")


def is_listing(path: str) -> bool:
    return path == "/api/models"


def is_file(path: str) -> bool:
    return "/resolve/" in path


def is_weights(path: str) -> bool:
    return is_file(path) and path.endswith(".safetensors")


def is_anything(path: str) -> bool:
    return True


async def reply(send: Send, answer: Answer, *, stated_bytes: int | None = None) -> None:
    """Send an answer; `stated_bytes` lies about its length."""
    status, headers, body = answer
    sent = {**headers, "content-length": str(len(body) if stated_bytes is None else stated_bytes)}
    rows = [(name.lower().encode(), value.encode()) for name, value in sent.items()]
    await send({"type": "http.response.start", "status": status, "headers": rows})
    await send({"type": "http.response.body", "body": body})


def refusing(app: ASGIApp, where: Where, status: int, headers: Headers, times: int | None = None) -> ASGIApp:
    """Answer with a status where it applies: always, or only the first `times` times."""
    left = [times]

    async def hostile(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not where(scope["path"]) or left[0] == 0:
            await app(scope, receive, send)
            return
        if left[0] is not None:
            left[0] -= 1
        await reply(send, (status, {"content-type": "application/json", **headers}, b'{"error": "hostile"}'))

    return hostile


def changing(app: ASGIApp, where: Where, change: Change, *, keep_length: bool = False, times: int | None = None) -> ASGIApp:
    """Change whole answers where it applies (always, or the first `times` times); keep_length: the true length stays stated."""
    left = [times]

    async def hostile(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not where(scope["path"]) or scope["method"] != "GET" or left[0] == 0:
            await app(scope, receive, send)
            return
        if left[0] is not None:
            left[0] -= 1
        status, headers, body = await _collect(app, scope, receive)
        changed = change(scope, (status, headers, body))
        await reply(send, changed, stated_bytes=len(body) if keep_length else None)

    return hostile


async def _collect(app: ASGIApp, scope: Scope, receive: Receive) -> Answer:
    status, headers, body = 500, Headers(), bytearray()

    async def take(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
            headers.update({name.decode(): value.decode() for name, value in message["headers"]})
        else:
            body.extend(message.get("body", b""))

    await app(scope, receive, take)
    headers.pop("content-length", None)
    return status, headers, bytes(body)


def asking(app: ASGIApp, ask: Callable[[Scope], Scope]) -> ASGIApp:
    """Change the request before our hub sees it."""

    async def hostile(scope: Scope, receive: Receive, send: Send) -> None:
        await app(ask(scope) if scope["type"] == "http" else scope, receive, send)

    return hostile


def without_range(scope: Scope) -> Scope:
    return {**scope, "headers": [row for row in scope["headers"] if row[0] != b"range"]}


def without_query(scope: Scope) -> Scope:
    return {**scope, "query_string": b""}


def silent(app: ASGIApp) -> ASGIApp:
    """Take requests and never answer."""

    async def hostile(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
            return
        await _until_gone(receive)

    return hostile


def dripping(app: ASGIApp) -> ASGIApp:
    """Answer a blank every 50 ms, for ever."""

    async def hostile(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        gone = asyncio.ensure_future(_until_gone(receive))
        while not gone.done():
            await send({"type": "http.response.body", "body": b" ", "more_body": True})
            await asyncio.wait([gone], timeout=0.05)

    return hostile


def stalling(app: ASGIApp) -> ASGIApp:
    """Send half of each weight file, and then nothing more."""

    async def hostile(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_weights(scope["path"]) or scope["method"] != "GET":
            await app(scope, receive, send)
            return
        status, headers, body = await _collect(app, scope, receive)
        sent = {**headers, "content-length": str(len(body))}
        rows = [(name.encode(), value.encode()) for name, value in sent.items()]
        await send({"type": "http.response.start", "status": status, "headers": rows})
        await send({"type": "http.response.body", "body": body[: len(body) // 2], "more_body": True})
        await _until_gone(receive)

    return hostile


def flooding(app: ASGIApp) -> ASGIApp:
    """Answer the API with an endless body."""

    async def hostile(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or not is_api(scope["path"]):
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        gone = asyncio.ensure_future(_until_gone(receive))
        while not gone.done():
            await send({"type": "http.response.body", "body": b"[" * (1 << 20), "more_body": True})
            await asyncio.sleep(0)

    return hostile


async def _until_gone(receive: Receive) -> None:
    waiting: Awaitable[Message] = receive()
    while (await waiting)["type"] != "http.disconnect":
        waiting = receive()


def half_of_it(_: Scope, answer: Answer) -> Answer:
    """Half of a body, down to 64 KiB: a client that asks for the rest gets to the end."""
    body = answer[2]
    return answer[0], answer[1], body if len(body) < 1 << 16 else body[: len(body) // 2]


def one_bit_wrong(_: Scope, answer: Answer) -> Answer:
    body = bytearray(answer[2])
    if body:
        body[len(body) // 2] ^= 1
    return answer[0], answer[1], bytes(body)


def some_bytes_more(_: Scope, answer: Answer) -> Answer:
    return answer[0], answer[1], answer[2] + b"\0" * 4096


def other_range(_: Scope, answer: Answer) -> Answer:
    headers = {**answer[1]}
    if "content-range" in headers:
        headers["content-range"] = "bytes 0-9/10"
    return answer[0], headers, answer[2]


def web_page(_: Scope, answer: Answer) -> Answer:
    return 200, {"content-type": "text/html"}, b"<html>Sign in to the guest network</html>"


def in_document(edit: Callable[[dict[str, object]], None]) -> Change:
    """Edit the model document."""

    def change(_: Scope, answer: Answer) -> Answer:
        document = json.loads(answer[2])
        if answer[0] == 200 and isinstance(document, dict):
            edit(document)
        return answer[0], answer[1], json.dumps(document).encode()

    return change


def siblings_of(document: dict[str, object]) -> list[dict[str, object]]:
    found = document.get("siblings", [])
    assert isinstance(found, list)
    return found


def one_more_name(name: str) -> Callable[[dict[str, object]], None]:
    def edit(document: dict[str, object]) -> None:
        siblings_of(document).append({"rfilename": name, "size": 3, "blobId": "0" * 40})

    return edit


def sizes(scale: Callable[[int], int]) -> Callable[[dict[str, object]], None]:
    def edit(document: dict[str, object]) -> None:
        for sibling in siblings_of(document):
            if str(sibling["rfilename"]).endswith(".safetensors") and isinstance(sibling.get("size"), int):
                sibling["size"] = scale(int(str(sibling["size"])))
                sibling["lfs"] = {**dict(sibling["lfs"]), "size": sibling["size"]}  # type: ignore[call-overload]

    return edit


def no_digests(document: dict[str, object]) -> None:
    for sibling in siblings_of(document):
        sibling.pop("blobId", None)
        sibling.pop("lfs", None)


def other_commit(document: dict[str, object]) -> None:
    document["sha"] = "f" * 40


def closed_doors(document: dict[str, object]) -> None:
    document["gated"] = "manual"


def same_page_again(_: Scope, answer: Answer) -> Answer:
    return answer[0], {**answer[1], "link": '</api/models?cursor=again>; rel="next"'}, answer[2]


def page_elsewhere(scope: Scope, answer: Answer) -> Answer:
    if "cursor" in parse_qs(scope["query_string"].decode()):
        return answer
    return answer[0], {**answer[1], "link": '<http://192.0.2.1:9/api/models?cursor=acme%2Ftiny&limit=1>; rel="next"'}, answer[2]


def page_with_rubbish(_: Scope, answer: Answer) -> Answer:
    rows = json.loads(answer[2])
    return answer[0], answer[1], json.dumps([7, {"no": "id"}, {"id": "../../etc", "sha": "0" * 40}, *rows]).encode()


def each_repo(edit: Callable[[Path], None]) -> Callable[[Path], None]:
    """Edit every repository of a served folder."""

    def prepare(folder: Path) -> None:
        for config in folder.glob("*/*/config.json"):
            edit(config.parent)

    return prepare


def put(path: Path, content: bytes) -> None:
    """Replace a file (never the bytes of a hard link's other name)."""
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def config_said(content: bytes) -> Callable[[Path], None]:
    return lambda repo: put(repo / "config.json", content)


def config_changed(**fields: object) -> Callable[[Path], None]:
    def edit(repo: Path) -> None:
        config = json.loads((repo / "config.json").read_bytes())
        config = {key: value for key, value in {**config, **fields}.items() if value is not None}
        put(repo / "config.json", json.dumps(config).encode())

    return edit


def without_last_shard(repo: Path) -> None:
    shards = sorted(repo.glob("*.safetensors"))
    if not (repo / "model.safetensors.index.json").exists():
        index = {"weight_map": {"first": shards[0].name, "second": "model-00002-of-00002.safetensors"}}
        put(repo / "model.safetensors.index.json", json.dumps(index).encode())
    elif len(shards) > 1:
        shards[-1].unlink()


def first_header(make: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def edit(repo: Path) -> None:
        shard = min(repo.glob("*.safetensors"))
        put(shard, make(shard.read_bytes()))

    return edit


def lying_header(content: bytes) -> bytes:
    """A header whose one tensor lies far beyond the end of the file."""
    header = json.dumps({"t": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}).encode()
    return struct.pack("<Q", len(header)) + header + content[:1024]


def huge_header(content: bytes) -> bytes:
    """A header that claims to be 2^62 bytes long."""
    return struct.pack("<Q", 1 << 62) + content[8:]


def pickles_only(repo: Path) -> None:
    for number, shard in enumerate(sorted(repo.glob("*.safetensors"))):
        content = shard.read_bytes()
        shard.unlink()
        put(repo / ("pytorch_model.bin" if number == 0 else f"pytorch_model_{number}.bin"), content)
    (repo / "model.safetensors.index.json").unlink(missing_ok=True)


def own_code(repo: Path) -> None:
    config_changed(auto_map={"AutoModelForCausalLM": "modeling_evil.EvilForCausalLM"})(repo)
    put(repo / "modeling_evil.py", b"raise SystemExit('repository code ran')\n")
