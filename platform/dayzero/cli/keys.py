"""dayzero keys: who vouches for shards."""

from pathlib import Path
from typing import Annotated

import typer

from dayzero import app as composition
from dayzero.cli.arguments import Json
from dayzero.cli.output import bytes_shown, print_document
from dayzero.settings import load_settings

app = typer.Typer(help="Keys that sign for shards, and what they sign.", no_args_is_help=True)


@app.command()
def new(json: Json = False) -> None:
    """Make this node's key (DAYZERO_SIGNING_KEY says where) and print its public half, for DAYZERO_TRUSTED_KEYS of others."""
    key = composition.new_signing_key(load_settings())
    _show(key.id, str(key), json)


@app.command()
def show(json: Json = False) -> None:
    """Print the public half of this node's key."""
    key = composition.own_signing_key(load_settings())
    _show(key.id, str(key), json)


@app.command()
def sign(
    shards: Annotated[Path, typer.Argument(metavar="SHARDS", help="Folder of shards that this node made of whole files.")],
    json: Json = False,
) -> None:
    """Check shards and sign for them; `dayzero hub serve --shards` shows the record to the other nodes."""
    with bytes_shown(f"sign {shards}") as progress:
        record, place = composition.sign_shards(load_settings(), shards, progress)
    if json:
        print_document({"schema": "dayzero.keys.sign/1", "key_id": record.key_id, "record": str(place)})
    else:
        typer.echo(f"{place} is signed with {record.key_id}")


def _show(key_id: str, public: str, json: bool) -> None:
    if json:
        print_document({"schema": "dayzero.keys/1", "key_id": key_id, "public_key": public})
    else:
        typer.echo(public)
        typer.echo(f"its id in records is {key_id}", err=True)
