"""dayzero report: the page of an entry or a run, and what two of them differ in."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dayzero import app as composed
from dayzero.cli.opening import open_plane
from dayzero.cli.output import print_document, print_line, print_table, write_text
from dayzero.codec import dump
from dayzero.domain.canonical import plain
from dayzero.domain.entry_report import Report, ReportDiff
from dayzero.errors import BadInputError
from dayzero.stages.reporting.differing import diff_of

PAGE = "page"
Json_ = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="File to write: .html, or .json for other commands.")]
Named = Annotated[
    str,
    typer.Argument(metavar="ENTRY|RUN", help="Id of an entry or an adaptation, or its beginning; or a .json of --report."),
]


class PageUnlessNamed(TyperGroup):
    """A group whose command `page` need not be named: `dayzero report ENTRY` is `dayzero report page ENTRY`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command's name before what is none."""
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = [PAGE, *args]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


app = typer.Typer(
    cls=PageUnlessNamed,
    help="Reports: a page of an entry or a run with plots and evidence (`report ENTRY --out FILE`), and the diff of two.",
    no_args_is_help=True,
)


@app.command(PAGE)
def page(context: typer.Context, named: Named, out: Out = None, json: Json_ = False) -> None:
    """The report of an entry, of an adaptation as far as it has come, or of a file that `verify --report` wrote."""
    (report,) = _reports(context, (named,))
    if out is not None:
        write_report(report, out)
    if json:
        print_document(plain(report))
    elif out is not None:
        print_line(f"{report.entry.key.model} on {report.entry.key.platform}: {out}")
    else:
        _show(report)


@app.command()
def diff(
    context: typer.Context,
    first: Annotated[str, typer.Argument(metavar="A", help="An entry, an adaptation or a report's .json.")],
    second: Annotated[str, typer.Argument(metavar="B", help="What it is compared with.")],
    out: Out = None,
    json: Json_ = False,
) -> None:
    """What two entries or runs differ in: verdicts, figures, layers, packages, measurements."""
    found = diff_of(*_reports(context, (first, second)))
    if out is not None:
        _write(out, found)
    if json:
        print_document(plain(found))
    elif out is not None:
        print_line(f"{found.a.name} against {found.b.name}: {out}")
    else:
        _show_diff(found)


def write_report(report: Report, out: Path) -> None:
    """The report into a file: a page that stands alone, or its JSON."""
    _write(out, report)


def checked_file(path: Path) -> Path:
    """A file that a report can be written to, before anything is run for it; BadInputError."""
    if path.suffix not in (".html", ".json"):
        raise BadInputError(f"{path} is neither .html nor .json.", remedy="Name a file with one of these endings.")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise BadInputError(f"{path} cannot be written.", remedy="Name a file in a folder that exists.")
    return path


def _write(out: Path, found: Report | ReportDiff) -> None:
    if checked_file(out).suffix == ".json":
        write_text(out, dump(found).decode() + "\n")
        return
    from dayzero.web.entry_pages import diff_file, report_file  # templates are loaded for pages alone

    write_text(out, report_file(found) if isinstance(found, Report) else diff_file(found))


def _reports(context: typer.Context, names: Sequence[str]) -> list[Report]:
    """The reports by their names; the database is opened only where one is no file."""
    with ExitStack() as opened:
        plane = None
        found = []
        for name in names:
            if name.endswith(".json") or Path(name).is_file():
                found.append(composed.report_from(Path(name)))
                continue
            plane = plane or opened.enter_context(open_plane(context))
            found.append(composed.report_named(plane, name))
        return found


def _show(report: Report) -> None:
    entry = report.entry
    verdicts = [
        {
            "layer": one.layer.value,
            "verdict": one.verdict.value,
            "grade": one.grade.value if one.grade else None,
            "decided by": one.deciding,
            "n": one.n,
            "interval": one.interval,
        }
        for one in report.verdicts
    ]
    state = f"{entry.correctness.value}, {entry.freshness.value}"
    print_table(f"{entry.key.model} on {entry.key.platform}: {state}; {entry.reason}", verdicts)
    shown = [{"feature": one.name, "which": one.value, "shown": one.verdict.value} for one in report.features]
    print_table(f"{len(shown)} features", shown, notes=[*report.unread, "--out FILE.html writes the page with its plots"])


def _show_diff(found: ReportDiff) -> None:
    changed = [one for one in found.checks if one.changed]
    rows = [
        {
            "check": one.check,
            "rung": one.rung,
            "first": one.before.value if one.before else None,
            "second": one.after.value if one.after else None,
            "measured": one.measured_before,
            "then": one.measured_after,
            "ratio": one.ratio,
        }
        for one in found.checks
    ]
    headline = f"{found.a.name} against {found.b.name}: {len(changed)} of {len(rows)} checks changed their verdict"
    print_table(headline, rows, notes=found.notes)
    packages = [{"package": one.name, "first": one.before, "second": one.after} for one in found.packages]
    print_table(f"{len(packages)} packages differ", packages)
    moved = [
        {"check": one.check, "layer": one.index, "first": one.before, "second": one.after, "ratio": one.ratio}
        for one in found.layers
    ]
    print_table(f"{len(moved)} of {found.layers_compared} layers moved", moved)
    figures = [
        {
            "figure": one.name,
            "first": one.before.value if one.before else None,
            "second": one.after.value if one.after else None,
            "ratio": one.ratio,
            "unit": one.unit,
            "conditions": one.conditions,
        }
        for one in found.measurements
    ]
    print_table(f"{len(figures)} measurements", figures)
