"""`dayzero demo`."""

from pathlib import Path
from typing import Annotated

import typer

from dayzero.errors import ExitCode


def demo(
    models: Annotated[Path, typer.Option(help="Folder with the demo's models (`make install` makes them).")] = Path(
        ".dayzero/demo-models"
    ),
    data_dir: Annotated[Path, typer.Option(help="Data folder of the demo; emptied first.")] = Path(".dayzero/demo"),
    seed: Annotated[int | None, typer.Option(help="Draws the layer of the planted fault; default: at random.")] = None,
    keep_up: Annotated[bool, typer.Option("--keep-up", help="Leave everything running at the end.")] = False,
) -> None:
    """Three models appear on a local hub; exit code 0 when each came to what was announced."""
    from dayzero.demo.play import perform

    outcomes = perform(models, data_dir, seed, keep_up)
    if any(outcome.broken_promises for outcome in outcomes):
        raise typer.Exit(ExitCode.VERDICT_FAIL)
