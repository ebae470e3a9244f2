"""The plans of the heavy queries, as the store really asks them, over a list with a history: each names its index."""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine, event

from dayzero.adapters.store.compatibility import SqlCompatibilityList
from dayzero.adapters.store.reading import SqlReading
from dayzero.adapters.store.reports import SqlReports
from dayzero.domain.access import ANYONE
from dayzero.domain.told_results import ReportState
from seeding import Seeding, model_names, seed
from store_nouns import SteppedClock

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(900)]
SEEDING = Seeding(models=60, platforms=20, entries=3600)
MODEL = next(model_names(1))
Ask = Callable[["Doors"], object]


class Doors:
    """What pages ask."""

    def __init__(self, engine: Engine) -> None:
        clock = SteppedClock()
        self.reading = SqlReading(engine, clock, ANYONE)
        self.list = SqlCompatibilityList(engine, clock, ANYONE)
        self.reports = SqlReports(engine, clock)


def plans(engine: Engine, ask: Ask) -> str:
    """The plans of every statement that the question takes."""
    asked = []

    def note(connection: object, cursor: object, statement: str, parameters: object, *_: object) -> None:
        if statement.lstrip().startswith(("SELECT", "WITH")):
            asked.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    try:
        ask(Doors(engine))
    finally:
        event.remove(engine, "before_cursor_execute", note)
    raw = engine.raw_connection()
    try:
        cursor, found = raw.cursor(), []
        for statement, parameters in asked:
            cursor.execute("EXPLAIN " + statement, parameters)
            found += [row[0] for row in cursor.fetchall()] + [""]
    finally:
        raw.close()
    return "\n".join(found)


ASKED: dict[str, tuple[Ask, set[str]]] = {
    "a page of entries": (lambda doors: doors.reading.entries(limit=50), {"ix_standing_order"}),
    "entries of a platform": (
        lambda doors: doors.reading.entries('platform = "cpu" and correctness = "verified"', limit=50),
        {"ix_standing_platform_model"},
    ),
    "entries of a model": (lambda doors: doors.reading.entries(f'model = "{MODEL}"', limit=50), {"ix_standing_order"}),
    "a model": (
        lambda doors: doors.reading.model(MODEL),
        {"ix_entries_model_id_seq", "ix_standing_order", "ix_adaptations_model_id", "ix_releases_model_id"},
    ),
    "adaptations": (lambda doors: doors.reading.runs(limit=50), {"ix_adaptations_seq"}),
    "one entry": (lambda doors: doors.list.history(MODEL, "cpu"), {"ix_entries_model_id_seq", "pk_entries"}),
    "clocks of a platform": (lambda doors: doors.reading.clocks(platform="cpu", limit=50), {"ix_standing_platform_model"}),
    "what others say": (
        lambda doors: doors.reports.reports(ANYONE, state=ReportState.ACCEPTED, model=MODEL, platform="cpu"),
        {"ix_reports_model_platform"},
    ),
}
LARGE = ("entries", "standing", "adaptations", "outbox", "reports")
"""Tables that grow with the work: none of these questions may read one of them whole."""


def test_each_heavy_query_uses_its_index(engine: Engine) -> None:
    seed(engine, SEEDING)
    for what, (ask, indexes) in ASKED.items():
        plan = plans(engine, ask)
        missing = sorted(name for name in indexes if name not in plan)
        assert not missing, f"{what}: {missing} not in\n{plan}"
        whole = sorted(name for name in LARGE if f"Seq Scan on {name} " in plan)
        assert not whole, f"{what} reads {whole} whole:\n{plan}"
