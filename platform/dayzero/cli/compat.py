"""Commands about the compatibility list."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from dayzero.adapters.tables.parquet import parquet
from dayzero.cli.opening import open_plane
from dayzero.cli.output import cell, print_document, print_line, print_table, write_text
from dayzero.disk import write_whole
from dayzero.domain.canonical import plain
from dayzero.domain.columns import ROLLUP_COLUMNS
from dayzero.domain.entry import CompatibilityEntry
from dayzero.errors import BadInputError, NotFoundError
from dayzero.stages.bundle.escape import fenced
from dayzero.stages.exporting.texts import SCHEMA, Format, exported, list_document

app = typer.Typer(
    help="The compatibility list: what runs where, how well that was checked, and since when.", no_args_is_help=True
)
SHOWN = (
    "entry_id",
    "model",
    "platform",
    "mode",
    "plan",
    "lifecycle",
    "correctness",
    "performance",
    "freshness",
    "reason",
    "evidence",
)
ID_CHARACTERS = 12

Json_ = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Filter = Annotated[str, typer.Argument(help='Such as: platform = "cpu" and correctness in ("verified", "functional")')]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000_000, help="Most rows to show.")]
Row = Mapping[str, object]


@app.command()
def ls(
    context: typer.Context,
    filter_: Filter = "",
    rollup: Annotated[bool, typer.Option("--rollup", help="One row a model × platform: the best entry.")] = False,
    limit: Limit = 1000,
    json: Json_ = False,
) -> None:
    """The current entries that match a filter (all without one)."""
    if rollup and filter_:
        raise BadInputError("a roll-up takes no filter.", remedy="Leave out either FILTER or --rollup.")
    with open_plane(context) as plane:
        rows = plane.compatibility.rollup() if rollup else plane.compatibility.current(filter_, limit=limit)
    if json:
        print_document({"schema": SCHEMA, "rollup": [plain(row) for row in rows]} if rollup else list_document(rows, filter_))
        return
    names = tuple(column.name for column in ROLLUP_COLUMNS) if rollup else SHOWN
    print_table(f"{len(rows)} {'models on platforms' if rollup else 'entries'}", [_shortened(row, names) for row in rows])


@app.command()
def show(
    context: typer.Context, entry: Annotated[str, typer.Argument(help="Id of an entry, or its beginning.")], json: Json_ = False
) -> None:
    """One entry with its checks, measurements, gaps and day-0 clock."""
    with open_plane(context) as plane:
        found = plane.compatibility.entry(entry)
        versions = plane.compatibility.history(found.key.model, found.key.platform)
    row = next((row for row in versions if str(row["entry_id"]).startswith(entry)), None)
    if row is None:
        raise NotFoundError(
            f"entry {entry} of {found.key.model} is in no version of the list.", remedy="See `dayzero compat ls`."
        )
    if json:
        print_document({"schema": SCHEMA, "entries": [plain(row)], "entry": plain(found)})
        return
    _print_entry(row, found)


@app.command()
def history(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="The model's name or an alias.")],
    platform: Annotated[str | None, typer.Option("--platform", "-p", help="Only on this platform.")] = None,
    json: Json_ = False,
) -> None:
    """Every version of a model's entries, the newest first."""
    with open_plane(context) as plane:
        rows = plane.compatibility.history(model, platform)
    if json:
        print_document({"schema": SCHEMA, "model": model, "entries": [plain(row) for row in rows]})
        return
    print_table(f"{len(rows)} versions", [_shortened(row, ("recorded_at", *SHOWN)) for row in rows])


@app.command()
def export(
    context: typer.Context,
    filter_: Filter = "",
    format_: Annotated[Format, typer.Option("--format", "-f", help="json, csv, markdown or parquet.")] = Format.JSON,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write; default: stdout.")] = None,
    limit: Limit = 1_000_000,
) -> None:
    """The current entries that match a filter, with all columns, for other programs."""
    with open_plane(context) as plane:
        rows = plane.compatibility.current(filter_, limit=limit)
    if format_ is Format.PARQUET:
        _write_parquet(rows, out)
    elif out is None:
        typer.echo(exported(rows, filter_, format_), nl=False)
    else:
        write_text(out, exported(rows, filter_, format_))
    if out is None:
        return
    print_line(f"{len(rows)} entries in {out}")


def _write_parquet(rows: Sequence[Row], out: Path | None) -> None:
    if out is None:
        raise BadInputError("Parquet is no text for a terminal.", remedy="Name a file with --out.")
    write_whole(out, parquet(rows))


def _shortened(row: Row, names: Sequence[str]) -> dict[str, object]:
    return {
        name: str(row[name])[:ID_CHARACTERS] if name.endswith("entry_id") else row.get(name) for name in names if name in row
    }


def _print_entry(row: Row, entry: CompatibilityEntry) -> None:
    columns = [{"column": name, "value": value} for name, value in row.items()]
    columns += [{"column": name, "value": value} for name, value in entry.columns.items()]
    print_table(f"{entry.key.model} on {entry.key.platform}: {entry.correctness.value}, {entry.freshness.value}", columns)
    checks = [
        {
            "layer": check.layer.value,
            "check": check.check,
            "rung": check.rung,
            "verdict": check.verdict.value,
            "grade": check.grade.value,
            "measured": check.measured,
            "tolerance": check.tolerance,
            "n": check.n,
            "reason": check.reason,
        }
        for check in entry.checks
    ]
    print_table(f"{len(checks)} checks", checks, notes=[f"not shown: {name}" for name in entry.missing_checks])
    measured = [
        {
            "figure": figure.name,
            "value": figure.value,
            "unit": figure.unit,
            "samples": figure.samples,
            "conditions": ", ".join(f"{name} {cell(value)}" for name, value in figure.conditions.items()),
        }
        for figure in entry.measurements
    ]
    print_table(f"{len(measured)} measurements", measured, notes=[f"gap: {gap}" for gap in entry.gaps])
    if entry.sample_text:
        for line in fenced(entry.sample_text).splitlines()[1:-1]:
            print_line(f"> {line}")
