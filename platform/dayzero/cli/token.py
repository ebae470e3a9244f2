"""dayzero token: who may read, write and administer over HTTP, and what was done."""

from typing import Annotated

import typer

from dayzero.cli.arguments import Json
from dayzero.cli.opening import only_one, open_plane
from dayzero.cli.output import print_document, print_line, print_table
from dayzero.domain.access import AccessToken, Scope
from dayzero.domain.canonical import plain

app = typer.Typer(help="Tokens with scopes for people and programs, and the trail of what was done.", no_args_is_help=True)
SCHEMA = "dayzero.tokens/1"
DAY_S = 24 * 3600.0


@app.command()
def add(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is.")],
    scope: Annotated[Scope, typer.Option(help="What it may do; write includes read, admin both.")] = Scope.READ,
    valid_days: Annotated[float, typer.Option(help="Days until it expires.")] = 90.0,
    json: Json = False,
) -> None:
    """Issue a token; it is shown this once."""
    with open_plane(context) as plane:
        text, made = plane.access.issue(name, scope, valid_days * DAY_S)
        plane.access.record("operator", "token.add", made.id, f"{scope.value} for {name}")
    if json:
        print_document({"schema": SCHEMA, "tokens": [{**_row(made), "token": text}]})
        return
    print_line(f"token {made.id}, scope {scope.value}, until {made.expires_at:%Y-%m-%d %H:%M} UTC")
    print_line(f"shown once: {text}")


@app.command(name="ls")
def listed(context: typer.Context, json: Json = False) -> None:
    """Every token; the tokens themselves are not known any more."""
    with open_plane(context) as plane:
        rows = [_row(one) for one in plane.access.tokens()]
    if json:
        print_document({"schema": SCHEMA, "tokens": rows})
        return
    print_table(f"{len(rows)} tokens", rows)


@app.command()
def revoke(
    context: typer.Context, token: Annotated[str, typer.Argument(metavar="ID", help="Its id, or the beginning of it.")]
) -> None:
    """End a token now."""
    with open_plane(context) as plane:
        ids = [one.id for one in plane.access.tokens()]
        ended = plane.access.revoke(only_one("token", token, ids, "dayzero token ls"))
        plane.access.record("operator", "token.revoke", ended.id, ended.name)
    print_line(f"token {ended.id} is revoked")


@app.command()
def trail(
    context: typer.Context,
    limit: Annotated[int, typer.Option(help="Newest lines to show.", min=1, max=100_000)] = 100,
    json: Json = False,
) -> None:
    """Who did what, the newest first."""
    with open_plane(context) as plane:
        found = plane.access.trail(limit)
    if json:
        print_document({"schema": "dayzero.audit/1", "trail": plain(tuple(found))})
        return
    rows = [
        {"at": f"{one.at:%Y-%m-%d %H:%M:%S}", "who": one.who, "did": one.action, "to": one.subject, "detail": one.detail}
        for one in found
    ]
    print_table(f"{len(rows)} lines", rows)


def _row(token: AccessToken) -> dict[str, object]:
    return {
        "id": token.id,
        "name": token.name,
        "scope": token.scope.value,
        "platform": token.platform,
        "created_at": plain(token.created_at),
        "expires_at": plain(token.expires_at),
        "revoked": token.revoked,
    }
