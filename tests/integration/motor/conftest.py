"""One Prefect server on one embedded Postgres for all tests of the motor."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker

from dayzero.adapters.prefect.environment import api_url, client_environment, server_environment
from dayzero.adapters.processes.group import ChildSpec, Group
from dayzero.adapters.processes.ports import free_port
from dayzero.adapters.store import embedded


@pytest.fixture(scope="session")
def motor_folder() -> Iterator[Path]:
    # Not below pytest's tmp_path, which another session of pytest closes to the database server's account.
    with TemporaryDirectory(prefix="dayzero-motor-", ignore_cleanup_errors=True) as name:
        yield Path(name).resolve()


@pytest.fixture(scope="session")
def motor_database(motor_folder: Path) -> Iterator[str]:
    with embedded.running(motor_folder / "data") as url:
        yield url


@pytest.fixture(scope="session")
def group(motor_folder: Path) -> Iterator[Group]:
    group = Group(motor_folder / "logs", print, lambda _pids: None)
    yield group
    group.stop()


@pytest.fixture(scope="session")
def prefect_api(motor_database: str, motor_folder: Path, group: Group) -> Iterator[str]:
    port = free_port("127.0.0.1")
    api = api_url("127.0.0.1", port)
    home = motor_folder / "prefect"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "DAYZERO_"))}
    database = embedded.ensure_database(motor_database, "prefect")
    environment = {**inherited, **server_environment(database, "127.0.0.1", port, home)}

    def healthy() -> bool:
        try:
            return httpx.get(api + "/health", timeout=2.0, trust_env=False).is_success
        except httpx.TransportError:
            return False

    group.start(ChildSpec("prefect-server", "prefect", ("server", "start"), environment, healthy))
    yield api
    # What flows of this process still want to tell must reach the server before it goes, or the exit waits for it.
    EventsWorker.drain_all(timeout=20)
    APILogWorker.drain_all(timeout=20)


@pytest.fixture
def worker_variables(prefect_api: str, motor_folder: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "DAYZERO_"))}
    return {**inherited, **client_environment(prefect_api, motor_folder / "prefect-worker")}
