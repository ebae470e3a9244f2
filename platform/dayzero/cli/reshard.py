"""The command that makes shards of one plan from those of another: reshard."""

from pathlib import Path
from typing import Annotated

import typer

from dayzero import app
from dayzero.cli.arguments import Degree, Json, degrees_of
from dayzero.cli.output import bytes_shown, print_document, print_table
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import Integrity
from dayzero.errors import BadInputError
from dayzero.steps.documents import reshard_document


def reshard(
    shards: Annotated[Path, typer.Argument(help="Folder of shards with its manifest, of any plan.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the new rank files.")],
    config: Annotated[Path | None, typer.Option("--config", help="Another config.json, or its folder.")] = None,
    tp: Degree = None,
    pp: Degree = None,
    ep: Degree = None,
    dp: Degree = None,
    cp: Degree = None,
    etp: Degree = None,
    redundant_experts: Annotated[int, typer.Option(min=0, help="Second copies of busy experts, over ep ranks.")] = 0,
    integrity: Annotated[
        Integrity, typer.Option("--integrity", help="Whether the shards' digests are checked.")
    ] = Integrity.SHA256,
    json: Json = False,
) -> None:
    """Write the shards of another plan from those that are there, without going back to the hub."""
    if not shards.is_dir():
        raise BadInputError(f"{shards} is not a folder.", remedy="Name a folder of shards.")
    if out.exists() and not out.is_dir():
        raise BadInputError(f"{out} is a file.", remedy="Name a folder with --out.")
    degrees = degrees_of(tp, pp, ep, dp, cp, etp) or Degrees()
    with bytes_shown("reshard") as progress:
        manifest = app.reshard(shards, config, degrees, out, progress, redundant_experts=redundant_experts, integrity=integrity)
    if json:
        print_document(reshard_document(manifest, out))
        return
    rows = tuple(
        {"rank": file.rank, "file": file.path, "bytes": file.size_bytes, "digest": file.digest} for file in manifest.files
    )
    print_table(f"{manifest.degrees}: {len(manifest.files)} files in {out}", rows)
