"""dayzero claim: what others say of models on platforms, and who lets it be shown."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from dayzero.cli.arguments import Json
from dayzero.cli.opening import only_one, open_plane
from dayzero.cli.output import print_document, print_line, print_table
from dayzero.domain.access import OPERATOR
from dayzero.domain.told_results import Report, ReportKind, ReportState
from dayzero.errors import BadInputError
from dayzero.stages.claims.reading import read_claims
from dayzero.stages.claims.showing import SCHEMA, shown_report

app = typer.Typer(
    help="What others say: results of before, and reports from the field. Declared, never measured.", no_args_is_help=True
)
MAX_FILE_BYTES = 64 * 2**20
Id = Annotated[str, typer.Argument(metavar="REPORT", help="Its id, or the beginning of it.")]
Why = Annotated[str, typer.Option(help="Why.")]


def import_results(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .csv or .json file.")],
    source: Annotated[str | None, typer.Option(help="Where the results are from; default: the file's name.")] = None,
    json: Json = False,
) -> None:
    """Import results of before: each row a claim of grade declared, shown beside the list and never part of a verdict.

    Columns: model, platform, says (works, partly, fails), source, engine, dtype, devices, observed_on, note; others: figures.
    """
    try:
        content = file.read_bytes() if file.stat().st_size <= MAX_FILE_BYTES else None
    except OSError as error:
        raise BadInputError(f"{file} cannot be read: {error.strerror}.", remedy="Name a .csv or .json file.") from error
    if content is None:
        raise BadInputError(f"{file} has more than {MAX_FILE_BYTES} bytes.", remedy="Split it.")
    claims = read_claims(content, is_json=file.suffix.lower() == ".json", source=source or file.name)
    with open_plane(context) as plane:
        new = plane.reports.tell(ReportKind.DECLARED, claims, "operator", ReportState.ACCEPTED)
        plane.access.record("operator", "results.import", file.name, f"{new} of {len(claims)} new")
    if json:
        print_document({"schema": "dayzero.import/1", "rows": len(claims), "new": new, "grade": "declared"})
        return
    print_line(f"{len(claims)} results read, {new} of them new; they are shown as declared (`dayzero claim ls`)")


@app.command(name="ls")
def listed(
    context: typer.Context,
    model: Annotated[str | None, typer.Option(help="Of this model only.")] = None,
    platform: Annotated[str | None, typer.Option(help="On this platform only.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Also what waits to be judged, or was rejected.")] = False,
    json: Json = False,
) -> None:
    """What others say, the newest first."""
    with open_plane(context) as plane:
        state = None if every else ReportState.ACCEPTED
        found = plane.reports.reports(OPERATOR, state=state, model=model, platform=platform)
    _show(found, json, f"{len(found)} reports")


@app.command()
def accept(context: typer.Context, report: Id, why: Why = "", json: Json = False) -> None:
    """Let a report be shown."""
    _judge(context, report, ReportState.ACCEPTED, why, json)


@app.command()
def reject(context: typer.Context, report: Id, why: Why, json: Json = False) -> None:
    """Do not let a report be shown."""
    _judge(context, report, ReportState.REJECTED, why, json)


def _judge(context: typer.Context, report: str, state: ReportState, why: str, json: bool) -> None:
    with open_plane(context) as plane:
        ids = [one.id for one in plane.reports.reports(OPERATOR, limit=100_000)]
        judged = plane.reports.judge(only_one("report", report, ids, "dayzero claim ls --all"), state, "operator", why)
        plane.access.record("operator", f"report.{state.value}", judged.id, why)
    _show((judged,), json, state.value)


def _show(found: Sequence[Report], json: bool, headline: str) -> None:
    if json:
        print_document({"schema": SCHEMA, "reports": [shown_report(one) for one in found]})
        return
    rows = [
        {
            "report": one.id[:12],
            "model": one.claim.model,
            "platform": one.claim.platform,
            "says": one.claim.says.value,
            "grade": "declared",
            "kind": one.kind.value,
            "state": one.state.value,
            "source": one.claim.source,
            "note": one.claim.note,
        }
        for one in found
    ]
    print_table(headline, rows) if rows else print_line(headline)
