"""A real PostgreSQL for tests: one embedded server a session, a fresh database a test, made from a migrated template.

Load it with `pytest_plugins = ["postgres_fixtures"]`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import Engine
from sqlalchemy.engine import make_url

from dayzero.adapters.store import embedded, migrate
from dayzero.adapters.store.connection import open_engine

_TEMPLATE = "migrated_template"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a server that lives as long as the session, with a migrated template database."""
    with _folder() as folder, embedded.running(folder / "data") as url:
        for statement in ("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()", f"CREATE DATABASE {_TEMPLATE}"):
            _run(url, statement)
        migrate.upgrade(_database(url, _TEMPLATE))
        yield url


@pytest.fixture
def database_url(postgres_server: str) -> Iterator[str]:
    """The URL of a database that is this test's own and has the newest schema."""
    name = f"test_{uuid4().hex}"
    _run(postgres_server, f"CREATE DATABASE {name} TEMPLATE {_TEMPLATE}")
    yield _database(postgres_server, name)
    _run(postgres_server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def empty_database_url(postgres_server: str) -> Iterator[str]:
    """The URL of a database that is this test's own and has nothing in it."""
    name = f"test_{uuid4().hex}"
    _run(postgres_server, f"CREATE DATABASE {name}")
    yield _database(postgres_server, name)
    _run(postgres_server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """An engine on this test's own database."""
    engine = open_engine(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A data folder that nothing is in yet; a server that a test left running there is stopped."""
    with _folder() as folder:
        yield folder / "data"
        embedded.stop(folder / "data", force=True)


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder that pytest leaves alone: at its start, every pytest session closes all of the user's tmp_paths to other
    accounts, and the server of a session that runs beside it has one."""
    with TemporaryDirectory(prefix="dayzero-") as name:
        yield Path(name)


def _database(url: str, name: str) -> str:
    return make_url(url).set(database=name).render_as_string(hide_password=False)


def _run(url: str, statement: str) -> None:
    server = make_url(url).set(drivername="postgresql", database="postgres").render_as_string(hide_password=False)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(statement.encode())
