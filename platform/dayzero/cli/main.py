"""The `dayzero` command."""

import sys

import typer

from dayzero.cli import compat, db, demo, health, hub, models, platform, run, subscribe, up, watch, worker
from dayzero.cli.output import print_error
from dayzero.errors import DayzeroError

app = typer.Typer(
    help="New open models running, proven and listed on your own accelerators on the day their weights appear.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for function in (models.inspect, models.ops, models.plan, models.fetch, models.verify, models.adapt):
    app.command()(function)
for function in (health.doctor, health.status, demo.demo, up.up):
    app.command()(function)
for name, group in (
    ("watch", watch.app),
    ("run", run.app),
    ("compat", compat.app),
    ("subscribe", subscribe.app),
    ("platform", platform.app),
    ("worker", worker.app),
    ("hub", hub.app),
    ("db", db.app),
):
    app.add_typer(group, name=name)


def main() -> None:
    """Run the command line; an error of ours becomes one sentence and its exit code."""
    try:
        app()
    except DayzeroError as error:
        print_error(error)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
