"""An index of packages that tests write themselves, for the real pip."""

from pathlib import Path

import pytest


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A simple index (PEP 503) as a folder; pip asks no other."""
    folder = tmp_path / "simple"
    folder.mkdir()
    monkeypatch.setenv("PIP_INDEX_URL", folder.as_uri())
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    return folder
