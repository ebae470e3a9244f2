"""dayzero baseline: what the references say is recorded once, and listed."""

from pathlib import Path

import pytest
from door_commands import Door

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(900)]


def test_a_baseline_is_recorded_and_listed(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    import streamed_families

    model = str(streamed_families.checkpoint("llama", tmp_path / "model").model_dir)
    door = Door(tmp_path)
    recorded = door("baseline", "record", model, "--json")
    assert recorded.code == 0, recorded
    assert recorded.document["schema"] == "dayzero.baseline/1"
    names = {one["of"]["kind"]: one["name"] for one in recorded.document["baselines"]}
    assert set(names) == {"layers", "logits"}
    listed = door("baseline", "ls", "--json")
    assert {one["name"] for one in listed.document["baselines"]} == set(names.values())
