"""The control plane that doors and pages are opened over."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from dayzero import app
from dayzero.adapters.store.connection import open_engine
from dayzero.app.planes import Plane
from dayzero.settings import Settings
from seeding import Seeding, seed


@pytest.fixture
def plane(database_url: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Plane]:
    """Over an empty database, or over what the module's SEEDING says."""
    seeding: Seeding | None = getattr(request.module, "SEEDING", None)
    if seeding is not None:
        engine = open_engine(database_url)
        seed(engine, seeding)
        engine.dispose()
    with app.control_plane(Settings(database_url=SecretStr(database_url), data_dir=tmp_path / "data")) as opened:
        yield opened
