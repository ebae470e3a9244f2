"""Rehearsals where the operator wants none, or where there is no worker."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dayzero import app


def plane(*, rehearse: bool, alive: int) -> app.Plane:
    settings = SimpleNamespace(rehearse=rehearse, orphan_after_s=60.0)
    workforce = SimpleNamespace(workers_alive=lambda platform, within_s: alive)
    return cast(Any, SimpleNamespace(settings=settings, workforce=workforce))


@pytest.mark.parametrize(
    ("rehearse", "alive", "reason"),
    [(True, 1, None), (True, 0, "no worker for platform cpu"), (False, 1, "DAYZERO_REHEARSE"), (False, 0, "DAYZERO_REHEARSE")],
)
def test_why_a_rehearsal_is_left_out(rehearse: bool, alive: int, reason: str | None) -> None:
    held = plane(rehearse=rehearse, alive=alive)
    found = app.why_no_rehearsal(held, "cpu", able=app.is_served(held, "cpu"))
    assert found is None if reason is None else reason in str(found)
