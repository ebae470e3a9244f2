"""A repository of pickles alone, through the door that every adaptation takes: blocked, or converted on the way to an entry."""

import json
import shutil
from pathlib import Path

import pytest
from door_commands import Door

from hub_counter import CountingHub

torch = pytest.importorskip("torch")
from safetensors.torch import load_file  # noqa: E402 - after importorskip

pytestmark = [pytest.mark.hub, pytest.mark.torch, pytest.mark.postgres]


@pytest.fixture
def pickled(tiny: Path, tmp_path: Path) -> Path:
    """A served folder with acme/pickled: the tiny model as its publisher would have saved it years ago."""
    home = tmp_path / "hub" / "models" / "acme" / "pickled"
    home.mkdir(parents=True)
    for path in tiny.iterdir():
        if path.suffix != ".safetensors" and not path.name.endswith(".index.json"):
            shutil.copyfile(path, home / path.name)
    tensors = {name: one for path in sorted(tiny.glob("*.safetensors")) for name, one in load_file(path).items()}
    names = sorted(tensors)
    files = {"pytorch_model-00001-of-00002.bin": names[::2], "pytorch_model-00002-of-00002.bin": names[1::2]}
    for file, held in files.items():
        torch.save({name: tensors[name] for name in held}, home / file)
    weight_map = {name: file for file, held in files.items() for name in held}
    (home / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    torch.save(tensors, home / "pytorch_model.fp32.bin")
    return home.parents[1]


@pytest.mark.timeout(900)
def test_pickles_are_blocked_until_they_are_allowed_and_then_adapted(pickled: Path, database_url: str, tmp_path: Path) -> None:
    with CountingHub(pickled) as hub:
        door = Door(tmp_path, {"DATABASE_URL": database_url, "CPU_DEVICES": "2", "HF_ENDPOINT": hub.url})
        blocked = door("adapt", "hf:acme/pickled", "--platform", "cpu", "--no-server", "--json", timeout_s=400)
        assert blocked.code == 3 and blocked.document["adaptation"]["state"] == "blocked"
        assert "put acme/pickled into DAYZERO_ALLOW_PICKLE" in blocked.document["adaptation"]["reason"]
        assert not [one for one in hub.asked if one.path.endswith(".bin") and one.sent_bytes > 100_000]
        said = door(
            "adapt", "hf:acme/pickled", "--platform", "cpu", "--no-server", "--json",
            timeout_s=800, ALLOW_PICKLE='["acme/pickled"]',
        )  # fmt: skip
        assert not [one for one in hub.asked if "fp32" in one.path], "a copy beside the index is not fetched"
    assert said.document["adaptation"]["state"] == "done", said.err
    entry = said.document["verification"]["entry"]
    assert said.code == {"verified": 0, "functional": 3}[entry["correctness"]]
    manifest = json.loads(next((tmp_path / "data" / "work" / "shards").rglob("manifest.json")).read_text())
    assert [source["verified"] for source in manifest["sources"]] == [True, True]
    assert [source["path"] for source in manifest["sources"]] == [
        "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
    ]  # fmt: skip
    assert not list((tmp_path / "data" / "work").rglob("*.bin")), "the pickles are gone once they are converted"
