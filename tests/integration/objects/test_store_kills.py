"""SIGKILL at any moment of processes that fill one store, and evict from it, at the same time."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dayzero.adapters.hubs.directory import DirectoryHub
from dayzero.adapters.objects.checking import check_store
from dayzero.adapters.objects.store import ObjectStore
from hub_models import fill, noise

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parents[2] / "store_churn.py"
ROUNDS = 12
LIMIT_BYTES = 9 << 20


def published(folder: Path) -> None:
    shared = noise(1 << 20, b"shared")
    for number in range(5):
        own = noise((2 << 20) + number, b"%d" % number)
        files = {"config.json": b"{}", "model-1.safetensors": own, "model-2.safetensors": shared}
        fill(folder, f"acme/m{number}", files)


def churning(folder: Path, seed: int) -> "subprocess.Popen[str]":
    command = [sys.executable, str(SCRIPT), str(folder / "models"), str(folder / "store"), str(LIMIT_BYTES), str(seed)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_whatever_is_killed_nothing_referenced_is_lost(tmp_path: Path) -> None:
    published(tmp_path / "models")
    drawn = random.Random(7)
    store = ObjectStore(tmp_path / "store", LIMIT_BYTES)
    held = 0
    for number in range(ROUNDS):
        children = [churning(tmp_path, 2 * number + which) for which in range(2)]
        try:
            for child in children:
                assert child.stdout is not None
                assert child.stdout.readline() == "begun\n"
            time.sleep(drawn.uniform(0.02, 0.8))
        finally:
            for child in children:
                child.kill()
                child.communicate()
        references = store.releases()
        assert all(store.object(name) is not None for one in references for name in one.objects.values())
        checked = check_store(store)
        assert checked.damaged == () and checked.object_count > 0
        assert store.use().used_bytes <= LIMIT_BYTES
        assert not any(store.rooms.is_pinned(one.content_id) for one in references)
        for one in references:
            for view in store.folder.model(one.content_id).glob("*.safetensors"):
                assert view.stat().st_nlink > 1, "a view is another name of an object"
        held += checked.object_count
    store.sweep()
    assert store.use().unreferenced_bytes == 0 and held >= ROUNDS
    hub = DirectoryHub(tmp_path / "models" / "acme" / "m0")
    release = hub.release(str(tmp_path / "models" / "acme" / "m0"), None)
    with store.taking(release, release.files):
        for file in release.files:
            store.obtain(hub, release, file)
    assert all(store.held(release, file) is not None for file in release.files)
