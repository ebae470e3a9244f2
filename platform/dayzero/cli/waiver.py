"""dayzero waiver: somebody answers for a check that fails, for a while."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from dayzero.cli.arguments import Json
from dayzero.cli.opening import only_one, open_plane
from dayzero.cli.output import print_document, print_line, print_table
from dayzero.domain.canonical import plain
from dayzero.domain.observations import CheckName
from dayzero.domain.waivers import Waiver
from dayzero.errors import BadInputError

app = typer.Typer(help="Waivers: failing checks that somebody answers for, until a day.", no_args_is_help=True)
SCHEMA = "dayzero.waivers/1"
LONGEST_DAYS = 366


@app.command()
def add(
    context: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The model's name, or a pattern: org/*")],
    check: Annotated[str, typer.Argument(metavar="CHECK", help="The check's name: layers.three_way")],
    reason: Annotated[str, typer.Option(help="Why it may fail.")],
    owner: Annotated[str, typer.Option(help="Who answers for it.")],
    days: Annotated[int, typer.Option(help="Days from now until it expires.", min=1, max=LONGEST_DAYS)],
    platform: Annotated[str, typer.Option(help="The platform, or a pattern.")] = "*",
    json: Json = False,
) -> None:
    """From now on that failing check does not make an entry failing; the entry shows it, and is never verified by it."""
    known = sorted(name.value for name in CheckName)
    if check not in known:
        raise BadInputError(f"there is no check {check[:80]}.", remedy=f"Known ones: {', '.join(known)}.")
    with open_plane(context) as plane:
        until = plane.clock.now() + timedelta(days=days)
        made = plane.catalog.waive(model, platform, check, reason, owner, until)
    _show((made,), json, f"waived until {made.until:%Y-%m-%d %H:%M} UTC; entries show it after their next run")


@app.command(name="ls")
def listed(
    context: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Those that expired or were ended too.")] = False,
    json: Json = False,
) -> None:
    """The waivers in force."""
    with open_plane(context) as plane:
        now = plane.clock.now()
        found = [one for one in plane.catalog.waivers() if every or (one.ended_at is None and one.until > now)]
    _show(found, json, f"{len(found)} waivers")


@app.command()
def end(
    context: typer.Context,
    waiver: Annotated[str, typer.Argument(metavar="WAIVER", help="Its id, or the beginning of it.")],
    json: Json = False,
) -> None:
    """End a waiver now; entries show it after their next run."""
    with open_plane(context) as plane:
        ids = [one.id for one in plane.catalog.waivers()]
        ended = plane.catalog.end_waiver(only_one("waiver", waiver, ids, "dayzero waiver ls --all"))
    _show((ended,), json, "ended")


def _show(found: Sequence[Waiver], json: bool, headline: str) -> None:
    if json:
        print_document({"schema": SCHEMA, "waivers": plain(tuple(found))})
        return
    now = datetime.now(UTC)
    rows = [
        {
            "waiver": one.id[:12],
            "model": one.model,
            "platform": one.platform,
            "check": one.check,
            "owner": one.owner,
            "until": f"{one.until:%Y-%m-%d %H:%M}",
            "state": "ended" if one.ended_at else "expired" if one.until <= now else "in force",
            "reason": one.reason,
        }
        for one in found
    ]
    print_table(headline, rows) if rows else print_line(headline)
