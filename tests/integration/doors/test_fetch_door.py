"""`dayzero fetch`: a node's ranks, what vouches for them, and who is asked before much is moved."""

import json
import shutil
from pathlib import Path

import pytest
from door_commands import Door

from dayzero.adapters.hubs.serving import HubServer
from dayzero.adapters.hubs.serving.app import serve_app
from hub_counter import CountingHub

pytestmark = [pytest.mark.hub, pytest.mark.torch, pytest.mark.slow]


def test_a_second_node_gets_its_ranks_and_the_site_vouches(served: Path, tmp_path: Path) -> None:
    with CountingHub(served) as hub:
        door = Door(tmp_path, {"HF_ENDPOINT": hub.url})
        whole = door("fetch", "hf:acme/tiny", "--out", tmp_path / "site", "--tp", "2", "--json")
        assert whole.code == 0 and whole.document["state"] == "hashed" and whole.document["slices"] is None
        assert not list((tmp_path / "data").rglob("model*.safetensors")), "no full copy lies on the disk"
        alone = door("fetch", "hf:acme/tiny", "--out", tmp_path / "alone", "--tp", "2", "--ranks", "1", "--json")
        assert alone.code == 0 and (alone.document["verified"], alone.document["state"]) == (False, "unverified")
        asked = alone.document["slices"]
        assert asked["ranks"] == [1] and asked["read_bytes"] == asked["needed_bytes"] + asked["overread_bytes"]
        assert [one["rank"] for one in alone.document["files"]] == [1]
        app = serve_app(served, tmp_path / "site-state", (tmp_path / "site",))
        with HubServer(served, app=app) as site:
            key = door("keys", "new", "--json").document["public_key"]
            told = Door(tmp_path, {"HF_ENDPOINT": hub.url, "SITE_URL": site.url, "TRUSTED_KEYS": json.dumps([key])})
            unsigned = told("fetch", "hf:acme/tiny", "--out", tmp_path / "unsigned", "--tp", "2", "--ranks", "1")
            assert "unverified: " in unsigned.out and "has no signed record of it for tp2" in " ".join(unsigned.out.split())
            signed = door("keys", "sign", tmp_path / "site", "--json")
            assert signed.code == 0 and signed.document["key_id"] == door("keys", "show", "--json").document["key_id"]
            vouched = told("fetch", "hf:acme/tiny", "--out", tmp_path / "vouched", "--tp", "2", "--ranks", "1", "--json")
        assert vouched.code == 0 and vouched.document["state"] == "vouched"
        assert vouched.document["vouched_by"] == signed.document["key_id"] and vouched.document["refused"] is None
    name = vouched.document["files"][0]["path"]
    assert (tmp_path / "vouched" / name).read_bytes() == (tmp_path / "site" / name).read_bytes()
    for ranks, says in (("7", "has no rank 7"), ("one", "names no ranks"), ("", "names no ranks"), ("1-0", "names no ranks")):
        refused = door("fetch", served / "acme" / "tiny", "--out", tmp_path / "no", "--tp", "2", "--ranks", ranks)
        assert refused.code == 2 and says in refused.error, refused.err


def test_much_is_not_moved_without_a_yes(served: Path, tmp_path: Path) -> None:
    with CountingHub(served) as hub:
        door = Door(tmp_path, {"HF_ENDPOINT": hub.url, "APPROVE_BELOW_BYTES": "1000"})
        refused = door("fetch", "hf:acme/tiny", "--out", tmp_path / "out", "--tp", "2")
        assert refused.code == 3 and not (tmp_path / "out").exists()
        assert "not begun without approval: hf:acme/tiny@" in refused.error and "to download" in refused.error
        assert "--yes" in refused.error and "DAYZERO_APPROVE_BELOW_BYTES" in refused.error
        said = door("fetch", "hf:acme/tiny", "--out", tmp_path / "out", "--tp", "2", "--yes")
        assert said.code == 0 and "every byte was checked" in said.out
    shutil.rmtree(tmp_path / "out")


def test_shards_go_to_a_destination_and_come_back_whole(served: Path, tmp_path: Path) -> None:
    door, model = Door(tmp_path), served / "acme" / "tiny"
    assert door("fetch", model, "--out", tmp_path / "shards", "--tp", "2").code == 0
    put = door("store", "put", tmp_path / "shards", tmp_path / "there", "--json").document
    assert {file["path"] for file in put["files"]} >= {"manifest.json"}
    assert door("store", "take", tmp_path / "there", "--out", tmp_path / "back").code == 0
    checked = door("fetch", model, "--out", tmp_path / "back", "--verify", "--json")
    assert checked.code == 0 and checked.document["verified"] is True
    assert checked.document["content_id"] == put["content_id"]
