"""A hub over a folder with one small repository."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hub_counter import CountingHub
from hub_models import REPO, Published, fill, repo_files


@pytest.fixture
def published(tmp_path: Path) -> Iterator[Published]:
    folder = tmp_path / "models"
    fill(folder, REPO, repo_files())
    with CountingHub(folder) as hub:
        yield Published(folder, hub)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's cache or token."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf-home"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
