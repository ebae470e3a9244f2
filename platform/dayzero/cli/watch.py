"""Commands about what is watched."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from dayzero import app as dayzero
from dayzero.cli.output import print_document, print_table
from dayzero.domain.canonical import plain
from dayzero.domain.watching import Rule, WatchSource
from dayzero.errors import ExitCode
from dayzero.settings import load_settings

app = typer.Typer(help="Sources that are watched, and the rules by which releases are taken.", no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@app.command()
def add(
    source: Annotated[str, typer.Argument(help="hf, dir:FOLDER, or pypi:PACKAGE (a modelling library).")],
    location: Annotated[str | None, typer.Option(help="Endpoint or folder; default: DAYZERO_HF_ENDPOINT.")] = None,
    author: Annotated[str | None, typer.Option(help="Only this author's repositories.")] = None,
    name: Annotated[str, typer.Option(help="Shell pattern over the repository id.")] = "*",
    task: Annotated[str | None, typer.Option(help="Only this task, such as text-generation.")] = None,
    min_bytes: Annotated[int, typer.Option(min=0, help="Smallest size of the weights.")] = 0,
    platform: Annotated[list[str] | None, typer.Option(help="For these platforms; default: DAYZERO_PLATFORMS.")] = None,
    since: Annotated[datetime | None, typer.Option(help="Also what appeared since then.")] = None,
    json: Json = False,
) -> None:
    """Watch a source."""
    settings = load_settings()
    rule = Rule(author, name, task, min_bytes, tuple(platform or ()))
    for slug in rule.platforms:
        dayzero.known_platform(settings, slug)
    hub, where = dayzero.source_location(settings, source, location)
    with dayzero.control_plane(settings) as plane:
        added = plane.watchbook.add_source(hub, where, rule, since and since.replace(tzinfo=since.tzinfo or UTC))
    _show([added], json)


@app.command()
def ls(json: Json = False) -> None:
    """Every source, with its last poll and what went wrong in it."""
    with dayzero.control_plane(load_settings()) as plane:
        _show(plane.watchbook.sources(), json)


@app.command()
def rm(source: Annotated[str, typer.Argument(help="The source's id.")]) -> None:
    """Stop watching a source; what was seen stays."""
    with dayzero.control_plane(load_settings()) as plane:
        plane.watchbook.remove_source(source)


@app.command()
def once(json: Json = False) -> None:
    """Poll every source now."""
    with dayzero.control_plane(load_settings()) as plane:
        reports = dayzero.poll_once(plane, all_now=True)
    if json:
        print_document({"schema": "dayzero.watch/1", "polls": [plain(report) for report in reports]})
    else:
        for report in reports:
            headline = f"source {report.source_id}: {report.seen} seen, {report.unchanged} unchanged, {len(report.new)} new"
            print_table(
                headline, [{"repository": note.repo_id, "why": note.note} for note in (*report.ignored, *report.errors)]
            )
    if any(report.error for report in reports):
        raise typer.Exit(ExitCode.DEPENDENCY)


def _show(sources: Sequence[WatchSource], json: bool) -> None:
    if json:
        print_document({"schema": "dayzero.sources/1", "sources": [plain(source) for source in sources]})
        return
    rows = [
        {
            "id": source.id,
            "hub": source.hub.value,
            "location": source.location,
            "author": source.rule.author,
            "name": source.rule.name_pattern,
            "platforms": ", ".join(source.rule.platforms) or "default",
            "last poll": source.last_polled_at.isoformat(timespec="seconds") if source.last_polled_at else "never",
            "error": source.last_error,
        }
        for source in sources
    ]
    print_table("sources", rows)
