"""dayzero mcp."""

import os
from typing import Annotated

import typer

from dayzero.adapters.assistants.protocol import server_on
from dayzero.client import Client
from dayzero.settings import load_settings


def mcp(
    url: Annotated[str | None, typer.Option(help="The control plane's address; default: this host's.")] = None,
    token: Annotated[str | None, typer.Option(help="A token with scope read (better: DAYZERO_READ_TOKEN).")] = None,
) -> None:
    """Let an assistant ask the list: a Model Context Protocol server on stdin and stdout, with read-only tools."""
    settings = load_settings()
    address = url or f"http://{settings.host}:{settings.port}"
    with Client(address, token or os.environ.get("DAYZERO_READ_TOKEN")) as client:
        server_on(client).run("stdio")
