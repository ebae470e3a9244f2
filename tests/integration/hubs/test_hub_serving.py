"""What goes over the wire: ranges, headers, hidden files; downloads that are cut or killed; the command."""

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from huggingface_hub import hf_hub_download

from dayzero.adapters.hubs.hugging_face import HuggingFaceHub
from dayzero.adapters.hubs.serving import HubServer
from dayzero.adapters.hubs.serving.server import listen
from dayzero.domain.release import HubKind
from dayzero.domain.watching import Rule, WatchSource
from dayzero.errors import BadInputError, DependencyError
from hostile_hub import HostileHub
from hub_models import BIG_BYTES, REPO, Published, fill, noise, repo_files

pytestmark = pytest.mark.hub
SHARD = "model-00001-of-00002.safetensors"


def url_of(published: Published, name: str) -> str:
    return f"{published.url}/{REPO}/resolve/main/{name}"


def test_heads_and_ranges(published: Published) -> None:
    content = repo_files()[SHARD]
    sha256 = hashlib.sha256(content).hexdigest()
    head = httpx.head(url_of(published, SHARD))
    assert head.status_code == 200 and int(head.headers["Content-Length"]) == BIG_BYTES
    assert head.headers["X-Linked-Etag"] == head.headers["ETag"] == f'"{sha256}"'
    assert head.headers["X-Linked-Size"] == str(BIG_BYTES) and len(head.headers["X-Repo-Commit"]) == 40
    assert published.hub.sent_bytes(SHARD) == 0
    small = httpx.head(url_of(published, "config.json"))
    assert "X-Linked-Size" not in small.headers and len(small.headers["ETag"]) == 42
    for asked, expected in (("0-7", content[:8]), (f"{BIG_BYTES - 3}-", content[-3:]), ("-5", content[-5:])):
        part = httpx.get(url_of(published, SHARD), headers={"Range": f"bytes={asked}"})
        assert part.status_code == 206 and part.content == expected
    beyond = httpx.get(url_of(published, SHARD), headers={"Range": f"bytes={BIG_BYTES}-"})
    assert beyond.status_code == 416 and beyond.headers["Content-Range"] == f"bytes */{BIG_BYTES}"
    whole = httpx.get(url_of(published, SHARD), headers={"Range": "bytes=0-3", "If-Range": '"another"'})
    assert whole.status_code == 200 and whole.content == content


def test_nothing_outside_the_folder_can_be_read(published: Published, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_bytes(b"secret")
    published.path("link.txt").symlink_to(tmp_path / "secret.txt")
    published.path("model-3.safetensors.incomplete").write_bytes(b"half")
    published.path(".hidden").write_bytes(b"hidden")
    (published.folder / "acme" / "outside").symlink_to(tmp_path)
    names = ("link.txt", ".hidden", "model-3.safetensors.incomplete", "..%2f..%2f..%2fsecret.txt", "%2e%2e/%2e%2e/secret.txt")
    for name in names:
        assert httpx.get(url_of(published, name)).status_code == 404, name
    for path in ("acme/outside/resolve/main/secret.txt", "../secret.txt", "acme/..%2f../resolve/main/secret.txt"):
        with socket.create_connection(("127.0.0.1", int(published.url.rpartition(":")[2])), timeout=10) as raw:
            raw.sendall(f"GET /{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            assert b" 404 " in raw.recv(100), path


def test_error_codes_of_the_hub(published: Published) -> None:
    asked = {
        f"/api/models/{REPO}/revision/nope": (404, "RevisionNotFound"),
        "/api/models/acme/nope": (404, "RepoNotFound"),
        f"/{REPO}/resolve/main/nope": (404, "EntryNotFound"),
        f"/{REPO}/resolve/main/x%0d%0bSet-Cookie:a=b": (404, "EntryNotFound"),
        f"/{REPO}/resolve/main/x%00": (404, "EntryNotFound"),
        f"/api/models/{REPO}/tree/main/nope": (404, "EntryNotFound"),
        "/api/whoami-v2": (401, "NoAccounts"),
    }
    for path, expected in asked.items():
        answer = httpx.get(published.url + path)
        assert (answer.status_code, answer.headers["X-Error-Code"]) == expected
        assert "Set-Cookie" not in answer.headers
    assert httpx.get(f"{published.url}/api/models?sort=mood").status_code == 400
    assert httpx.get(f"{published.url}/api/models?limit=0").status_code == 422
    assert httpx.get(f"{published.url}/api/models?cursor=gone").status_code == 400


def test_the_real_client_asks_only_for_the_rest_of_a_cut_download(tmp_path: Path) -> None:
    content = noise(25 << 20, b"larger than the 10 MB that the client writes at once")
    fill(tmp_path / "models", REPO, {"model.safetensors": content})
    with HostileHub("cut-once", tmp_path / "models") as hub:
        place = hf_hub_download(REPO, "model.safetensors", endpoint=hub.url, cache_dir=tmp_path / "cache")
        assert Path(place).read_bytes() == content
        first, rest = [one for one in hub.asked if "model.safetensors" in one.path and one.method == "GET"]
        assert first.byte_range is None and first.sent_bytes < len(content)
        assert rest.status == 206 and rest.byte_range is not None
        begin = int(rest.byte_range.removeprefix("bytes=").partition("-")[0])
        assert begin >= 10_000_000 and rest.sent_bytes == len(content) - begin


KILLED = """
import sys
from pathlib import Path
from dayzero.adapters.hubs.hugging_face import HuggingFaceHub
hub = HuggingFaceHub(sys.argv[1], timeout_s=60)
hub.download(hub.release(sys.argv[2], None), sys.argv[3], Path(sys.argv[4]), None)
"""


def test_a_killed_download_goes_on_where_it_stopped(tmp_path: Path) -> None:
    fill(tmp_path / "models", REPO, repo_files())
    part = tmp_path / "out" / f"{SHARD}.incomplete"
    with HostileHub("stalling", tmp_path / "models") as hub:
        child = subprocess.Popen([sys.executable, "-c", KILLED, hub.url, REPO, SHARD, str(tmp_path / "out")])
        deadline = time.monotonic() + 60
        while not (part.exists() and part.stat().st_size > 1 << 20) and child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        child.send_signal(signal.SIGKILL)
        child.wait()
    there = part.stat().st_size
    assert 1 << 20 < there < BIG_BYTES
    with HostileHub("none", tmp_path / "models") as hub:
        ours = HuggingFaceHub(hub.url)
        place = ours.download(ours.release(REPO, None), SHARD, tmp_path / "out", None)
        assert place.read_bytes() == repo_files()[SHARD]
        assert sum(one.sent_bytes for one in hub.asked if SHARD in one.path) == BIG_BYTES - there


COMMAND = [sys.executable, "-c", "from dayzero.cli.hub import app; app()"]


def test_the_command_serves_until_it_is_stopped(tmp_path: Path) -> None:
    fill(tmp_path / "models", REPO, {"config.json": b"{}"})
    command = [*COMMAND, "serve", str(tmp_path / "models"), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        told = json.loads(child.stdout.readline())
        assert told["schema"] == "dayzero.hub/1" and told["models"] == [REPO]
        assert httpx.get(f"{told['url']}/api/models").json()[0]["id"] == REPO
        child.send_signal(signal.SIGTERM)
        child.wait(30)
    assert (tmp_path / ".models.dayzero-hub" / "history" / f"{REPO}.json").is_file()


def test_taken_ports_and_wrong_folders_are_told(tmp_path: Path) -> None:
    with listen("127.0.0.1", 0) as taken, pytest.raises(DependencyError, match=r"cannot listen on .* --port"):
        listen("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(BadInputError, match="no such address"):
        listen("no-such-host.invalid", 0)
    with pytest.raises(BadInputError, match="is not a folder"):
        HubServer(tmp_path / "absent")
    (tmp_path / "models").mkdir()
    (tmp_path / "state").write_bytes(b"a file")
    with pytest.raises(BadInputError, match="--state"):
        HubServer(tmp_path / "models", state=tmp_path / "state")


def test_hostile_hub_runs_as_a_command(tmp_path: Path) -> None:
    fill(tmp_path / "models", REPO, {"config.json": b"{}"})
    script = Path(__file__).parents[2] / "hostile_hub.py"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE")}
    with subprocess.Popen(
        [sys.executable, script, "missing", tmp_path / "models"], stdout=subprocess.PIPE, text=True, env=environment
    ) as child:
        assert child.stdout is not None
        url = child.stdout.readline().strip()
        assert httpx.get(f"{url}/api/models/{REPO}").status_code == 404
        child.kill()


def test_a_source_of_the_watcher_is_this_hub(published: Published) -> None:
    source = WatchSource("s", HubKind.HUGGING_FACE, published.url, Rule(author="acme"))
    ours = HuggingFaceHub(source.location)
    (listed,) = ours.list_repos(author=source.rule.author, task=None, since=None, limit=None)
    release = ours.release(listed.repo_id, listed.head)
    assert release.revision == listed.head and release.published_at == listed.last_modified
