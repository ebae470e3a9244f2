"""dayzero embargo: a model or a platform that only some tokens see, until a date."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from dayzero.cli.arguments import Json
from dayzero.cli.opening import only_one, open_plane
from dayzero.cli.output import print_document, print_line, print_table
from dayzero.domain.access import Embargo
from dayzero.domain.canonical import plain
from dayzero.errors import BadInputError

app = typer.Typer(help="Embargoes: models and platforms that only some tokens see, until a date.", no_args_is_help=True)
SCHEMA = "dayzero.embargoes/1"


@app.command()
def add(
    context: typer.Context,
    until: Annotated[str, typer.Option(help="ISO date or time (UTC where it names no zone): 2026-12-24T16:00")],
    reason: Annotated[str, typer.Option(help="Why.")],
    model: Annotated[str | None, typer.Option(help="Its name, also before it was ever seen.")] = None,
    platform: Annotated[str | None, typer.Option(help="The platform's slug.")] = None,
    token: Annotated[
        list[str] | None, typer.Option(help="Id of a token that sees it, or its beginning; again for more.")
    ] = None,
    json: Json = False,
) -> None:
    """From now on nobody over HTTP sees it, and no subscriber is told of it, but for the named tokens."""
    with open_plane(context) as plane:
        ids = [one.id for one in plane.access.tokens()]
        named = [only_one("token", one, ids, "dayzero token ls") for one in token or ()]
        made = plane.embargoes.place(model, platform, _moment(until), named, reason)
        plane.access.record("operator", "embargo.add", made.id, f"{model or 'every model'} on {platform or 'every platform'}")
    _show((made,), json, f"hidden until {made.until:%Y-%m-%d %H:%M} UTC")


@app.command(name="ls")
def listed(
    context: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Those that are over too.")] = False,
    json: Json = False,
) -> None:
    """The embargoes in force."""
    with open_plane(context) as plane:
        now = plane.clock.now()
        found = [one for one in plane.embargoes.embargoes() if every or (one.ended_at is None and one.until > now)]
    _show(found, json, f"{len(found)} embargoes")


@app.command()
def lift(
    context: typer.Context,
    embargo: Annotated[str, typer.Argument(metavar="EMBARGO", help="Its id, or the beginning of it.")],
    json: Json = False,
) -> None:
    """End an embargo now."""
    with open_plane(context) as plane:
        ids = [one.id for one in plane.embargoes.embargoes()]
        ended = plane.embargoes.lift(only_one("embargo", embargo, ids, "dayzero embargo ls --all"))
        plane.access.record("operator", "embargo.lift", ended.id)
    _show((ended,), json, "lifted")


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadInputError(f"{text[:80]!r} is no ISO date or time.", remedy="Write it as 2026-12-24T16:00.") from error
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _show(found: Sequence[Embargo], json: bool, headline: str) -> None:
    if json:
        print_document({"schema": SCHEMA, "embargoes": plain(tuple(found))})
        return
    now = datetime.now(UTC)
    rows = [
        {
            "embargo": one.id[:12],
            "model": one.model or "every",
            "platform": one.platform or "every",
            "until": f"{one.until:%Y-%m-%d %H:%M}",
            "tokens": len(one.tokens),
            "state": "lifted" if one.ended_at else "over" if one.until <= now else "in force",
            "reason": one.reason,
        }
        for one in found
    ]
    print_table(headline, rows) if rows else print_line(headline)
