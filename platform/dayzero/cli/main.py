"""The `dayzero` command."""

import sys

import typer

from dayzero.cli import bridge, bundle, compat, db, demo, health, hub, models, platform, run, subscribe, up, watch, worker
from dayzero.cli.output import disk_error, print_error
from dayzero.errors import DayzeroError

app = typer.Typer(
    help="New open models running, proven and listed on your own accelerators on the day their weights appear.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command()(models.inspect)
app.command()(models.ops)
app.command()(bridge.bridge)
app.command()(models.plan)
app.command()(models.fetch)
app.command()(models.verify)
app.command()(models.adapt)
app.command()(models.announce)
app.command()(health.doctor)
app.command()(health.status)
app.command()(bundle.bundle)
app.command()(demo.demo)
app.command()(up.up)
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
    except OSError as error:
        spoken = disk_error(error)
        if spoken is None:
            raise
        print_error(spoken)
        sys.exit(spoken.exit_code)


if __name__ == "__main__":
    main()
