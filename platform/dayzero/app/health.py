"""What is installed, what answers, and what runs."""

import shutil
from collections import Counter
from dataclasses import dataclass

from dayzero.adapters.images.builder import DockerImageBuilder
from dayzero.adapters.store.migrate import current, upgrade
from dayzero.adapters.store.readers import add_reader
from dayzero.adapters.trace.known import library_name
from dayzero.app.planes import Plane, database_url
from dayzero.domain.adaptation import AdaptationState
from dayzero.domain.canonical import Json
from dayzero.errors import DayzeroError
from dayzero.settings import Settings


def upgrade_database(settings: Settings) -> tuple[str | None, str | None]:
    """Bring the schema up; returns its revision and the one that is needed."""
    with database_url(settings) as url:
        upgrade(url)
        return current(url)


def add_database_reader(settings: Settings, name: str) -> str:
    """The URL of a login that reads the documented views and nothing else; its password is shown this once."""
    with database_url(settings) as url:
        upgrade(url)
        return add_reader(url, name)


def database_revision(settings: Settings) -> tuple[str | None, str | None]:
    """The schema's revision and the one that is needed."""
    with database_url(settings) as url:
        return current(url)


@dataclass(frozen=True, slots=True)
class Examined:
    """One part that `doctor` looked at."""

    part: str
    good: bool
    needed: bool
    message: str

    @property
    def state(self) -> str:
        """For people."""
        if self.good:
            return "good"
        return "missing" if self.needed else "absent, not needed for the control plane"


def examine(settings: Settings) -> tuple[Examined, ...]:
    """Look at the database, the worker extra, a C++ compiler, and the container engine."""
    found: list[Examined] = []
    try:
        revision, head = database_revision(settings)
        found.append(Examined("database", True, True, f"revision {revision or 'empty'}, needed {head}"))
    except DayzeroError as error:
        found.append(Examined("database", False, True, str(error)))
    library = library_name()
    found.append(Examined("worker extra", library is not None, False, library or "pip install 'dayzero[worker]'"))
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    found.append(Examined("C++ compiler", compiler is not None, False, compiler or "without one the target is not compiled"))
    try:
        found.append(Examined("container engine", True, False, DockerImageBuilder().version()))
    except DayzeroError as error:
        found.append(Examined("container engine", False, False, str(error)))
    return tuple(found)


def status_of(plane: Plane) -> dict[str, Json]:
    """Counts for people: adaptations by state, workers by platform, entries by correctness."""
    adaptations = plane.catalog.adaptations()
    rows = plane.compatibility.current()
    alive = {slug: plane.workforce.workers_alive(slug, plane.settings.orphan_after_s) for slug in plane.settings.platforms}
    return {
        "adaptations": dict(Counter(adaptation.state.value for adaptation in adaptations)),
        "running": [
            f"{item.model} on {item.platform}: {item.stage}" for item in adaptations if item.state is AdaptationState.RUNNING
        ],
        "workers": dict(alive),
        "entries": dict(Counter(str(row["correctness"]) for row in rows)),
    }
