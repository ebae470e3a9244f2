"""The embedded server under `dayzero up`."""

import time
from collections.abc import Callable
from pathlib import Path

from dayzero.adapters.store.embedded import ensure_database, is_running, start
from dayzero.errors import DependencyError

LOOK_AT_POSTGRES_EVERY_S = 3.0
PREFECT_DATABASE = "prefect"


def prefect_database(url: str) -> str:
    """The URL of the Prefect server's own database on the same server, made when it is not there."""
    return ensure_database(url, PREFECT_DATABASE)


class PostgresKeeper:
    """Starts the embedded server again when it was killed."""

    def __init__(self, data_dir: Path, say: Callable[[str], None]) -> None:
        self._data_dir = data_dir
        self._say = say
        self._looked_s = 0.0

    def __call__(self) -> None:
        now_s = time.monotonic()
        if now_s - self._looked_s < LOOK_AT_POSTGRES_EVERY_S:
            return
        self._looked_s = now_s
        if is_running(self._data_dir):
            return
        self._say("the database is gone; it starts again")
        try:
            start(self._data_dir)
        except DependencyError as error:
            self._say(str(error))
