"""dayzero hub: a folder of models, or the store of this site, as a hub."""

import json
from pathlib import Path
from typing import Annotated

import typer

from dayzero.app import store_of
from dayzero.settings import load_settings

app = typer.Typer(help="A folder of models as a hub that real hub clients can use.", no_args_is_help=True)


@app.callback()
def hub() -> None:
    """A folder of models as a hub that real hub clients can use."""


@app.command()
def serve(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="Folder of models: DIR/org/name/files; without one, the store's releases."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)] = 8712,
    state: Annotated[
        Path | None, typer.Option(help="Folder for commits and digests; default: .NAME.dayzero-hub beside DIR.")
    ] = None,
    shards: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of shards made here; signed ones vouch for slices of other nodes."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as one JSON document.")] = False,
) -> None:
    """Serve DIR, or this site's store, until Ctrl-C. Clients use it with HF_ENDPOINT set to the printed address."""
    from dayzero.adapters.hubs.serving.app import serve_app, serve_repositories
    from dayzero.adapters.hubs.serving.server import listen, serve_forever, url_of

    if folder is None:
        from dayzero.adapters.hubs.serving.stored import ServedStore

        store = store_of(load_settings())
        folder, none_yet = store.folder.root, "Bring one in: dayzero store add hf:org/name."
        served = serve_repositories(ServedStore(store), tuple(shards or ()))
    else:
        none_yet = f"Put files under {folder}/org/name/."
        served = serve_app(folder, state, tuple(shards or ()))
    with listen(host, port) as listening:
        url = url_of(listening)
        models = served.state.served.repo_ids()
        if as_json:
            typer.echo(json.dumps({"schema": "dayzero.hub/1", "url": url, "folder": str(folder), "models": models}))
        else:
            typer.echo(f"{url} serves {len(models)} models of {folder}. Clients: HF_ENDPOINT={url}")
            if not models:
                typer.echo(f"No model is in {folder} yet. {none_yet}")
        serve_forever(served, listening)
