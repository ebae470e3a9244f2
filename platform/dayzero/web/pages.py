"""The list and an entry as pages."""

from collections.abc import Mapping, Sequence

from fastapi.responses import HTMLResponse

from dayzero.domain.canonical import Json, plain
from dayzero.domain.entry import CompatibilityEntry
from dayzero.web.frame import page

Row = Mapping[str, object]


def list_page(
    rows: Sequence[Row], filter: str, columns: Sequence[tuple[str, str]], problem: str | None, status: int = 200
) -> HTMLResponse:
    """The list as a page: one row an entry, with the four columns; `problem` is what was wrong with the filter."""
    shown = [plain(row) for row in rows]
    return page(
        "list.html", title="Compatibility", here="/", problem=problem, status=status, rows=shown, filter=filter, columns=columns
    )


def entry_page(
    row: Json, entry: CompatibilityEntry | None, problem: str | None, *, drawn: bool = False, status: int = 200
) -> HTMLResponse:
    """One entry as a page; without an entry, `problem` says why. `drawn`: there is a picture of its plan."""
    title = f"{entry.key.model} on {entry.key.platform}" if entry else "Entry"
    shown = plain(entry) if entry else None
    return page("entry.html", title=title, problem=problem, status=status, row=row, entry=shown, drawn=drawn)
