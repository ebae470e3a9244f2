"""The `dayzero` command."""

import sys
from importlib import metadata
from typing import Annotated

import typer

from dayzero.cli.commands import Commands
from dayzero.errors import DayzeroError

app = typer.Typer(cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dayzero {metadata.version('dayzero')}")
        raise typer.Exit


@app.callback()
def dayzero(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """New open models running, proven and listed on your own accelerators on the day their weights appear."""


def main() -> None:
    """Run the command line; an error of ours becomes one sentence and its exit code."""
    try:
        app()
    except (DayzeroError, OSError) as error:
        from dayzero.cli.output import disk_error, print_error

        spoken = error if isinstance(error, DayzeroError) else disk_error(error)
        if spoken is None:
            raise
        print_error(spoken)
        sys.exit(spoken.exit_code)


if __name__ == "__main__":
    main()
