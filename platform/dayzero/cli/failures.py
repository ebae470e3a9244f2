"""dayzero failures: what went wrong, on which models, why, and what to do."""

from collections.abc import Sequence
from typing import Annotated

import typer

from dayzero.cli.arguments import Json
from dayzero.cli.opening import only_one, open_plane
from dayzero.cli.output import print_document, print_table
from dayzero.domain.canonical import plain
from dayzero.domain.failures import KnownFailure

app = typer.Typer(help="Failures that were met: their symptoms, causes and workarounds.", no_args_is_help=True)
SCHEMA = "dayzero.failures/1"
SEE = "dayzero failures ls"
SHORT = 100

Signature = Annotated[str, typer.Argument(metavar="FAILURE", help="Its signature, or the beginning of it.")]


@app.command(name="ls")
def listed(
    context: typer.Context,
    platform: Annotated[str | None, typer.Option("--platform", "-p", help="Only on this platform.")] = None,
    operator: Annotated[str | None, typer.Option(help="Only of this operator.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Those too that no model meets any more.")] = False,
    json: Json = False,
) -> None:
    """Known failures, those that hit the most models first."""
    with open_plane(context) as plane:
        found = [one for one in plane.failures.known(platform, operator=operator) if every or one.models]
    if json:
        print_document({"schema": SCHEMA, "failures": plain(tuple(found))})
        return
    print_table(f"{len(found)} known failures", [_row(one) for one in found])


@app.command()
def show(context: typer.Context, failure: Signature, json: Json = False) -> None:
    """One failure with all that is known of it."""
    with open_plane(context) as plane:
        known = {one.signature: one for one in plane.failures.known()}
    found = known[only_one("failure", failure, list(known), SEE)]
    _show(found, json)


@app.command()
def explain(
    context: typer.Context,
    failure: Signature,
    cause: Annotated[str | None, typer.Option(help="Why it fails.")] = None,
    workaround: Annotated[str | None, typer.Option(help="What helps until it is mended.")] = None,
    owner: Annotated[str | None, typer.Option(help="Who sees to it.")] = None,
    ticket: Annotated[str | None, typer.Option(help="Link to its ticket.")] = None,
    json: Json = False,
) -> None:
    """Say what people know of a failure; an empty text takes away what was said. Every model that may meet it is told."""
    said = {"cause": cause, "workaround": workaround, "owner": owner, "ticket": ticket}
    with open_plane(context) as plane:
        signature = only_one("failure", failure, [one.signature for one in plane.failures.known()], SEE)
        found = plane.failures.explain(signature, {name: words for name, words in said.items() if words is not None})
    _show(found, json)


def _show(found: KnownFailure, json: bool) -> None:
    if json:
        print_document({"schema": SCHEMA, "failures": [plain(found)]})
        return
    rows = [{"what": name, "value": _words(value)} for name, value in _facts(found).items() if value not in (None, "", ())]
    print_table(f"{found.signature}: {found.operator or found.check} on {found.platform}", rows)


def _facts(found: KnownFailure) -> dict[str, object]:
    names = ("kind", "check", "dtypes", "shape_class", "symptom", "cause", "workaround", "owner", "ticket", "models", "former",
             "stacks", "first_seen_at", "last_seen_at")  # fmt: skip
    return {name: getattr(found, name) for name in names}


def _words(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else value


def _row(one: KnownFailure) -> dict[str, object]:
    symptom = one.symptom if len(one.symptom) <= SHORT else one.symptom[: SHORT - 1] + "…"
    return {
        "failure": one.signature[:8],
        "platform": one.platform,
        "operator or check": one.operator or one.check,
        "dtypes": ", ".join(one.dtypes),
        "kind": one.kind.value,
        "models": len(one.models),
        "symptom": symptom,
        "cause": one.cause or "",
        "workaround": one.workaround or "",
        "owner": one.owner or "",
        "ticket": one.ticket or "",
    }
