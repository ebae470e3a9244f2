"""Rows of the list as a Parquet file, with typed columns."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

from dayzero.domain.columns import COMPATIBILITY_COLUMNS, ColumnKind
from dayzero.errors import DependencyError


def parquet(rows: Sequence[Mapping[str, object]]) -> bytes:
    """The rows as Parquet: text, doubles, and moments in UTC to the microsecond. DependencyError without pyarrow."""
    try:
        import pyarrow
        from pyarrow.parquet import write_table
    except ImportError as error:
        raise DependencyError("Parquet needs pyarrow.", remedy="Install dayzero with the extra `parquet`.") from error
    kinds = {
        ColumnKind.TEXT: pyarrow.string(),
        ColumnKind.NUMBER: pyarrow.float64(),
        ColumnKind.TIME: pyarrow.timestamp("us", tz="UTC"),
    }
    schema = pyarrow.schema([(column.name, kinds[column.kind]) for column in COMPATIBILITY_COLUMNS])
    names = [column.name for column in COMPATIBILITY_COLUMNS]
    numbers = {column.name for column in COMPATIBILITY_COLUMNS if column.kind is ColumnKind.NUMBER}
    columns: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in names}
    for name in numbers:
        columns[name] = [None if value is None else float(value) for value in columns[name]]
    written = io.BytesIO()
    write_table(pyarrow.table(columns, schema=schema), written, compression="zstd")
    return written.getvalue()
