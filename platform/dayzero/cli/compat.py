"""Commands about the compatibility list."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from dayzero import app as dayzero
from dayzero.adapters.tables.parquet import parquet
from dayzero.cli.claim import import_results
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
        plane.ageing.asked(found.key.model, found.key.platform)
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
def clock(
    context: typer.Context,
    model: Annotated[str | None, typer.Argument(help="Only this model.")] = None,
    platform: Annotated[str | None, typer.Option("--platform", "-p", help="Only on this platform.")] = None,
    json: Json_ = False,
) -> None:
    """The day-0 clock of each model on each platform: from live weights to verified, and what took the time."""
    with open_plane(context) as plane:
        rows, target_s = plane.compatibility.clock(model, platform), plane.settings.day_zero_target_s
    if json:
        print_document({"schema": "dayzero.clock/1", "target_s": target_s, "clock": [plain(row) for row in rows]})
        return
    times = ("time_to_verified_s", "waiting_s", "detection_s", "first_token_s", "verification_s", "notification_s")
    names = ("model", "platform", "correctness", "weights_live_at", *times, "longest_step")
    print_table(f"{len(rows)} models on platforms; the target is {target_s / 3600:g} h", [
        {name.removesuffix("_s"): span(row[name]) if name in times else row[name] for name in names} for row in rows
    ])  # fmt: skip


@app.command()
def league(context: typer.Context, json: Json_ = False) -> None:
    """The league table of platforms: how many models were verified within the target, how fast, and what takes long."""
    with open_plane(context) as plane:
        target_s = plane.settings.day_zero_target_s
        rows = plane.compatibility.league(target_s)
    if json:
        print_document({"schema": "dayzero.league/1", "target_s": target_s, "league": [plain(row) for row in rows]})
        return
    table = [{name.removesuffix("_s"): span(value) if name.endswith("_s") else value for name, value in row.items()}
             for row in rows]  # fmt: skip
    print_table(f"{len(rows)} platforms; the target is {target_s / 3600:g} h", table)


@app.command()
def age(context: typer.Context, json: Json_ = False) -> None:
    """Look now for entries that no longer describe what is installed, published and in force; `dayzero up` does by itself."""
    with open_plane(context) as plane:
        marked = dayzero.age_once(plane)
    rows = [{"model": one.entry.model, "platform": one.entry.platform, "mode": one.entry.mode.value, "why": one.why}
            for one in marked]  # fmt: skip
    if json:
        print_document({"schema": "dayzero.ageing/1", "stale": plain(rows)})
        return
    print_table(f"{len(rows)} entries are stale from now on", rows)


@app.command()
def queue(
    context: typer.Context,
    platform: Annotated[str | None, typer.Option("--platform", "-p", help="Only on this platform.")] = None,
    json: Json_ = False,
) -> None:
    """Stale entries that wait to be run again, the first to be started first, with the terms of each place."""
    with open_plane(context) as plane:
        waiting = dayzero.rerun_queue(plane, platform)
    if json:
        places = [
            {"rerun": plain(one.rerun), "score": one.priority.score, "terms": list(one.priority.terms)} for one in waiting
        ]
        print_document({"schema": "dayzero.reruns/1", "queue": plain(places)})
        return
    rows = [
        {
            "model": one.rerun.model,
            "platform": one.rerun.platform,
            "mode": one.rerun.mode.value,
            "score": round(one.priority.score, 2),
            "because": "; ".join(one.rerun.reasons),
            "terms": ", ".join(one.priority.terms),
        }
        for one in waiting
    ]
    print_table(f"{len(rows)} wait to be run again", rows)


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


def span(seconds: object) -> str:
    """A span of time for people: 95 s, 12 min, 3.4 h, 2.1 days; empty where nobody knows it."""
    if not isinstance(seconds, int | float):
        return ""
    for unit, size, most in (("s", 1.0, 120.0), ("min", 60.0, 7200.0), ("h", 3600.0, 172_800.0)):
        if seconds < most:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 86_400.0:.1f} days"


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
    lines = [
        {
            "layer": one.layer.value,
            "verdict": one.verdict.value,
            "grade": one.grade.value,
            "n": one.n,
            "intervals": "; ".join(f"{span.figure} [{span.low:.4g}, {span.high:.4g}]" for span in one.intervals),
            "not shown": ", ".join(one.missing),
        }
        for one in entry.layers
    ]
    tried = [{"feature": one.feature, "value": one.value, "verdict": one.verdict.value} for one in entry.features]
    print_table(f"{len(lines)} layers", lines)
    print_table(f"{len(tried)} features tried", tried, notes=list(entry.foretold))
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


app.command(name="import")(import_results)
