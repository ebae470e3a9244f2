"""Commands that make a checkpoint from another: convert, export."""

from pathlib import Path
from typing import Annotated

import typer

from dayzero import app
from dayzero.cli.arguments import Json, Model
from dayzero.cli.output import print_document, print_table, progress_shown
from dayzero.domain.conversion import WeightFormat
from dayzero.domain.shards import Integrity
from dayzero.domain.tensors import TensorHeader
from dayzero.errors import BadInputError
from dayzero.settings import load_settings
from dayzero.steps.documents import convert_document, export_document

Out = Annotated[Path, typer.Option("--out", help="Folder to make; it appears whole or not at all.")]


def convert(
    model: Model,
    to: Annotated[WeightFormat, typer.Option("--to", help="Format of the weights.")],
    out: Out,
    json: Json = False,
) -> None:
    """Write a checkpoint in another format, tensor by tensor: FP8 blocks, MXFP4 or packed int4 to bfloat16, bfloat16 to FP8;
    pickles that were allowed to safetensors."""
    if to is WeightFormat.SAFETENSORS:
        _show(app.unpickle(load_settings(), model, out), out, "dayzero.convert/1", json)
        return
    with progress_shown() as shown:
        plan = app.convert(load_settings(), model, to, out, lambda done, total: shown(done, total or done))
    if json:
        print_document(convert_document(plan, out))
        return
    rows = tuple({"conversion": kind, "tensors": count} for kind, count in plan.counts.items())
    print_table(f"{to.value}: {len(plan.files)} files in {out}", rows)


def export(
    shards: Annotated[Path, typer.Argument(help="Folder of shards with its manifest, of any plan.")],
    out: Out,
    beside: Annotated[
        Path | None,
        typer.Option("--beside", help="Folder of another configuration and tokenizer."),
    ] = None,
    integrity: Annotated[Integrity, typer.Option("--integrity", help="What is checked of the shards.")] = Integrity.SHA256,
    json: Json = False,
) -> None:
    """Join the shards of a plan into a plain checkpoint folder again: every tensor byte for byte as it was published."""
    for folder in (shards, beside):
        if folder is not None and not folder.is_dir():
            raise BadInputError(f"{folder} is not a folder.", remedy="Name one that is there.")
    with progress_shown() as shown:
        tensors = app.export(
            shards,
            out,
            beside,
            integrity=integrity,
            progress=lambda done, total: shown(done, total or done),
        )
    _show(tensors, out, "dayzero.export/1", json)


def _show(tensors: tuple[TensorHeader, ...], out: Path, schema: str, json: bool) -> None:
    if json:
        print_document(export_document(tensors, out, schema))
        return
    files = sorted({tensor.file for tensor in tensors})
    print_table(f"{len(tensors)} tensors in {len(files)} files in {out}", [{"file": file} for file in files])
