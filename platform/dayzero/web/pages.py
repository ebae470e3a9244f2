"""The list as a page."""

from collections.abc import Mapping, Sequence

from fastapi.responses import HTMLResponse

from dayzero.domain.canonical import plain
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
