"""Two adaptations of one release share its full copy, and its limit is the store's."""

from pathlib import Path

import pytest

from dayzero import app
from dayzero.domain.planning import Degrees
from dayzero.errors import BlockedError
from dayzero.settings import Settings
from dayzero.steps import shards
from hub_counter import CountingHub
from hub_models import BIG_BYTES, REPO, fill, repo_files

pytestmark = pytest.mark.hub


def settings_of(folder: Path, hub: CountingHub, **changed: object) -> Settings:
    return Settings(data_dir=folder / "data", hf_endpoint=hub.url, **changed)  # type: ignore[arg-type]  # as pydantic reads them


def test_the_second_platform_moves_nothing(tmp_path: Path) -> None:
    fill(tmp_path / "models", REPO, repo_files())
    with CountingHub(tmp_path / "models") as hub:
        settings = settings_of(tmp_path, hub)
        places, reports = [], []
        for platform in ("cpu", "h100"):
            work = app.local_work(settings, f"hf:{REPO}", platform)
            reports.append(shards.fetch_step(work.bench, work.lease))
            places.append(shards.on_disk(work.bench, work.release, Degrees()).model_dir)
        sent = [hub.sent_bytes(f"/{name}") for name in repo_files() if name.endswith(".safetensors")]
    assert sent == [BIG_BYTES, BIG_BYTES]
    assert places[0] == places[1] and [report.reused for report in reports] == [False, True]
    assert "held here already" in reports[1].headline
    held = {path.name: path.read_bytes() for path in places[0].iterdir()}
    assert held == {name: content for name, content in repo_files().items() if name in held}
    assert {name for name in repo_files() if name.endswith((".safetensors", ".json"))} <= set(held)


def test_a_fetch_beyond_the_limit_is_refused_with_the_numbers(tmp_path: Path) -> None:
    fill(tmp_path / "models", REPO, repo_files())
    with CountingHub(tmp_path / "models") as hub:
        work = app.local_work(settings_of(tmp_path, hub, store_limit_bytes=BIG_BYTES), f"hf:{REPO}", "cpu")
        with pytest.raises(BlockedError, match=rf"at most {BIG_BYTES:,}"):
            shards.fetch_step(work.bench, work.lease)
        assert hub.sent_bytes(".safetensors") - hub.sent_bytes(".index.json") == 0
