"""Several processes fetch one release into one store: what the hub sends, it sends once; a kill loses no byte that was kept."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dayzero.adapters.objects.checking import check_store
from dayzero.adapters.objects.store import ObjectStore
from hub_counter import CountingHub
from hub_models import BIG_BYTES, REPO, fill, repo_files

SCRIPT = Path(__file__).parents[2] / "store_fetch.py"
HALT_AT_BYTES = 3 << 20
pytestmark = pytest.mark.hub


@contextmanager
def fetching(hub: CountingHub, store: Path, *halt: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, str(SCRIPT), hub.url, REPO, str(store), *halt]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def line(child: "subprocess.Popen[str]") -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def last_line(child: "subprocess.Popen[str]") -> str:
    while (said := line(child)).startswith("Waiting for"):
        pass
    return said


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[CountingHub]:
    fill(tmp_path / "models", REPO, repo_files())
    with CountingHub(tmp_path / "models") as served:
        yield served


def test_two_fetches_of_one_release_share_the_transfer(hub: CountingHub, tmp_path: Path) -> None:
    with fetching(hub, tmp_path / "store", str(HALT_AT_BYTES)) as first:
        assert line(first) == "halted"
        with fetching(hub, tmp_path / "store") as second:
            assert line(second).startswith("Waiting for model-00001-of-00002.safetensors")
            assert first.stdin is not None
            first.stdin.write("go on\n")
            first.stdin.flush()
            assert (last_line(first), last_line(second)) == ("done", "done")
            assert first.wait() == second.wait() == 0
    weights = [path for path in repo_files() if path.endswith(".safetensors")]
    assert [hub.sent_bytes(f"/{path}") for path in weights] == [BIG_BYTES] * len(weights)
    checked = check_store(ObjectStore(tmp_path / "store"))
    assert (checked.object_count, checked.damaged, checked.incomplete) == (len(repo_files()), (), ())


def test_who_waits_goes_on_where_a_killed_fetch_was(hub: CountingHub, tmp_path: Path) -> None:
    weights = "/model-00001-of-00002.safetensors"
    with fetching(hub, tmp_path / "store", str(HALT_AT_BYTES)) as first:
        assert line(first) == "halted"
        with fetching(hub, tmp_path / "store") as second:
            assert line(second).startswith("Waiting for")
            first.send_signal(signal.SIGKILL)
            assert last_line(second) == "done"
            assert second.wait() == 0
    whole, rest = [one for one in hub.asked if one.method == "GET" and one.path.endswith(weights)]
    assert whole.byte_range is None and rest.status == 206
    assert rest.byte_range is not None
    begin = int(rest.byte_range.removeprefix("bytes=").removesuffix("-"))
    assert begin >= HALT_AT_BYTES - (1 << 20) and rest.sent_bytes == BIG_BYTES - begin
    store = ObjectStore(tmp_path / "store")
    checked = check_store(store)
    assert (checked.object_count, checked.damaged, checked.incomplete) == (len(repo_files()), (), ())
    assert store.use().partial_bytes == 0 and not store.rooms.is_pinned(store.releases()[0].content_id)


def test_a_kill_before_the_reference_leaves_what_the_next_fetch_takes_up(hub: CountingHub, tmp_path: Path) -> None:
    with fetching(hub, tmp_path / "store") as only:
        assert line(only) == "done"
    store = ObjectStore(tmp_path / "store")
    (reference,) = store.releases()
    store.references.remove(reference.content_id)
    assert store.use().unreferenced_bytes == sum(map(len, repo_files().values()))
    asked = len(hub.asked)
    with fetching(hub, tmp_path / "store") as again:
        assert line(again) == "done"
    moved = [one for one in hub.asked[asked:] if one.path.endswith(".safetensors")]
    assert moved == [] and store.use().unreferenced_bytes == 0
