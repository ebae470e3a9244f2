"""dayzero baseline: what the references say, recorded once."""

from typing import Annotated

import typer

from dayzero import app as work
from dayzero.cli.arguments import Json, Model, Platform
from dayzero.cli.output import print_document, print_table
from dayzero.settings import load_settings
from dayzero.steps.baselines import baseline_rows, baselines_document

app = typer.Typer(help="What the references say of a model's layers and text, recorded once.", no_args_is_help=True)


@app.command()
def record(
    model: Model,
    platform: Platform = "cpu",
    layers: Annotated[str, typer.Option("--layers", help="Layers whose tensors are kept: all, none, or 0,12,31.")] = "all",
    most_bytes: Annotated[int | None, typer.Option("--most-bytes", min=0, help="Tensors that are kept at most.")] = None,
    json: Json = False,
) -> None:
    """Compute the higher-precision and native references once and keep them; later checks of the same content read them."""
    found = work.record_baseline(load_settings(), model, platform, keep_layers=layers, most_bytes=most_bytes)
    if json:
        print_document(baselines_document(found))
        return
    print_table(f"{len(found)} baselines of {model}", baseline_rows(found))


@app.command("ls")
def ls(json: Json = False) -> None:
    """Every baseline in the data folder, the newest first."""
    found = work.list_baselines(load_settings())
    if json:
        print_document(baselines_document(found))
        return
    print_table(f"{len(found)} baselines, {sum(one.kept_bytes for one in found):,} bytes of tensors", baseline_rows(found))
