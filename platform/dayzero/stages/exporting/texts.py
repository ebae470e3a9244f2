"""Rows of the list as JSON, CSV and Markdown."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from enum import StrEnum

from dayzero.domain.canonical import Json, plain
from dayzero.domain.columns import COMPATIBILITY_COLUMNS
from dayzero.stages.bundle.escape import csv_text, markdown_table

SCHEMA = "dayzero.compat/1"
Row = Mapping[str, object]


class Format(StrEnum):
    """What an export is written as."""

    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"
    PARQUET = "parquet"


def list_document(rows: Sequence[Row], filter_: str) -> dict[str, Json]:
    """The JSON of a list: entries with the columns of the SQL view, in its order."""
    return {"schema": SCHEMA, "filter": filter_, "entries": [plain(row) for row in rows]}


def exported(rows: Sequence[Row], filter_: str, format_: Format) -> str:
    """The rows as text. CSV: an unknown value is empty, and an apostrophe keeps a spreadsheet from running a formula."""
    names = [column.name for column in COMPATIBILITY_COLUMNS]
    if format_ is Format.JSON:
        return json.dumps(list_document(rows, filter_), indent=2, allow_nan=False) + "\n"
    values = [[_bare(row.get(name)) for name in names] for row in rows]
    if format_ is Format.MARKDOWN:
        return markdown_table(names, [[str(value) for value in line] for line in values]) + "\n"
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([csv_text(value) if isinstance(value, str) else value for value in line] for line in values)
    return text.getvalue()


def _bare(value: object) -> str | int | float:
    bare = plain(value)
    if bare is None:
        return ""
    return bare if isinstance(bare, str | int | float) else str(bare)
