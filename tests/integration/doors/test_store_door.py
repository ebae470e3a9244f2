"""`dayzero store` and `dayzero hub serve` without a folder: one node takes a release in, another takes it from there."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from door_commands import Door

from hub_counter import CountingHub
from hub_models import REPO, fill, repo_files

pytestmark = pytest.mark.hub


@contextmanager
def serving(data_dir: Path) -> Iterator[str]:
    """The URL of `dayzero hub serve` over the store of a data folder."""
    command = [sys.executable, "-m", "dayzero.cli.main", "hub", "serve", "--port", "0", "--json"]
    environment = {**os.environ, "DAYZERO_DATA_DIR": str(data_dir)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert told["folder"] == str(data_dir / "store")
        yield str(told["url"])
    finally:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (0, "")


def test_a_release_goes_from_the_hub_to_a_site_and_to_its_second_node(tmp_path: Path) -> None:
    fill(tmp_path / "models", REPO, repo_files() | {"pytorch_model.bin": b"not needed"})
    size = sum(map(len, repo_files().values()))
    with CountingHub(tmp_path / "models") as world:
        first = Door(tmp_path / "first", {"HF_ENDPOINT": world.url})
        added = first("store", "add", f"hf:{REPO}", "--json").document
        assert (added["schema"], added["name"], added["fetched_bytes"]) == ("dayzero.store-add/1", REPO, size)
        again = first("store", "add", f"hf:{REPO}").out
        assert "0 of them came now" in again
        asked = len(world.asked)
    with serving(tmp_path / "first" / "data") as url:
        second = Door(tmp_path / "second", {"HF_ENDPOINT": url})
        took = second("store", "add", f"hf:{REPO}", "--json").document
        assert took["content_id"] == added["content_id"] and took["fetched_bytes"] == size
    assert len(world.asked) == asked
    listed = second("store", "ls", "--json").document
    assert listed["use"]["object_bytes"] == size and listed["use"]["unreferenced_bytes"] == 0
    (row,) = listed["releases"]
    assert (row["names"], row["held_bytes"], row["missing_files"], row["in_use"]) == ([REPO], size, 0, False)
    assert REPO in second("store", "ls").out


def test_damage_eviction_and_sweeping(tmp_path: Path) -> None:
    fill(tmp_path / "models", REPO, repo_files())
    door = Door(tmp_path)
    assert door("store", "add", tmp_path / "models" / REPO).code == 0
    assert door("store", "ls", "--json").document["releases"][0]["names"] == ["local/tiny"]
    assert door("store", "verify").code == 0
    store = tmp_path / "data" / "store"
    one = max(store.glob("objects/*/*"), key=lambda path: path.stat().st_size)
    one.chmod(0o644)
    with one.open("r+b") as stream:
        stream.write(b"other bytes")
    checked = door("store", "verify", "--json")
    assert checked.code == 1 and checked.document["checked"]["damaged"] == [one.name]
    assert (store / "quarantine" / one.name).exists()
    assert door("store", "add", tmp_path / "models" / REPO).code == 0
    assert door("store", "verify").code == 0
    gone = door("store", "evict", "local/tiny", "--json").document
    assert gone["in_use"] == [] and gone["evicted"][0]["freed_bytes"] == sum(map(len, repo_files().values()))
    (store / "objects" / "ab").mkdir(exist_ok=True)
    (store / "objects" / "ab" / ("ab" * 32)).write_bytes(b"left by a kill")
    assert door("store", "gc", "--json").document["swept"] == {"object_count": 1, "freed_bytes": 14}
    assert "0 releases, 0 bytes (no limit)" in door("store", "ls").out


def test_a_release_is_put_to_a_destination_and_taken_from_it(tmp_path: Path) -> None:
    fill(tmp_path / "models", REPO, repo_files())
    door = Door(tmp_path)
    assert door("store", "add", tmp_path / "models" / REPO, "--as", "our/tiny").code == 0
    put = door("store", "put", "our/tiny", tmp_path / "there", "--json").document
    assert put["schema"] == "dayzero.store-put/1" and put["moved_bytes"] == sum(map(len, repo_files().values()))
    took = door("store", "take", tmp_path / "there", "--out", tmp_path / "back", "--json").document
    assert took["content_id"] == put["content_id"] and took["moved_bytes"] == put["moved_bytes"]
    assert {name: (tmp_path / "back" / name).read_bytes() for name in repo_files()} == repo_files()
    assert door("store", "take", tmp_path / "nothing", "--out", tmp_path / "no").code == 2
    assert door("store", "put", "our/absent", tmp_path / "no").code == 2
    assert door("store", "put", tmp_path / "back", tmp_path / "no").code == 2, "a folder without a manifest is no shards"
    assert door("store", "take", "nowhere://x", "--out", tmp_path / "no").code == 2


def test_what_cannot_be_done_is_one_sentence(tmp_path: Path) -> None:
    fill(tmp_path / "models", REPO, repo_files())
    home = tmp_path / "models" / REPO
    door = Door(tmp_path, {"STORE_LIMIT_BYTES": "1000000"})
    refused = door("store", "add", home)
    assert refused.code == 3 and "at most 1,000,000" in refused.error and "DAYZERO_STORE_LIMIT_BYTES" in refused.error
    large = door("store", "add", home, APPROVE_BELOW_BYTES="1000")
    assert large.code == 3 and "not begun without approval" in large.error
    assert door("store", "evict", "acme/absent").code == 2
    assert door("store", "add", home, "--as", "../../climbs").code == 2
    assert door("store", "add", home / "config.json").code == 2
    (tmp_path / "data" / "store").mkdir(parents=True, exist_ok=True)
    (tmp_path / "data" / "store" / "releases").mkdir(exist_ok=True)
    (tmp_path / "data" / "store" / "releases" / ("ab" * 32 + ".json")).write_text("no JSON")
    broken = door("store", "gc")
    assert broken.code == 2 and "is no reference that can be read" in broken.error
