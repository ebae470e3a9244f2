"""Commands about the database."""

from typing import Annotated

import typer

from dayzero import app as dayzero
from dayzero.cli.output import print_document, print_table
from dayzero.settings import load_settings

app = typer.Typer(help="The database's schema.", no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@app.command()
def upgrade(json: Json = False) -> None:
    """Bring the schema to what this version needs."""
    _show(dayzero.upgrade_database(load_settings()), json)


@app.command()
def current(json: Json = False) -> None:
    """The schema's revision, and the one this version needs."""
    _show(dayzero.database_revision(load_settings()), json)


@app.command()
def reader(
    name: Annotated[str, typer.Argument(help="Who reads: small letters, digits, underscores.")], json: Json = False
) -> None:
    """A login that reads the documented views and nothing else; its URL is shown this once. Again: a new password."""
    url = dayzero.add_database_reader(load_settings(), name)
    if json:
        print_document({"schema": "dayzero.reader/1", "name": name, "url": url})
        return
    typer.echo(url)
    seen = "compatibility_current, _rollup, _versions, _layers, _features, day_zero_clock, _league and events"
    typer.echo(f"shown once; it reads {seen}", err=True)


def _show(revision: tuple[str | None, str | None], json: bool) -> None:
    found, head = revision
    if json:
        print_document({"schema": "dayzero.database/1", "revision": found, "head": head})
        return
    print_table("database", [{"revision": found or "empty", "needed": head, "current": "yes" if found == head else "no"}])
