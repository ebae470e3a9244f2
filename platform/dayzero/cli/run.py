"""Commands about adaptations: what runs, what it says, and what is to be done about it."""

import time
from typing import Annotated

import typer

from dayzero.adapters.processes.folder import running_prefect_api
from dayzero.cli.opening import only_one, open_plane
from dayzero.cli.output import print_document, print_line, print_table
from dayzero.domain.adaptation import GOING_ON, Adaptation, AdaptationState
from dayzero.domain.canonical import Json, plain
from dayzero.errors import BadInputError, DependencyError
from dayzero.ports.catalog import Catalog
from dayzero.settings import Settings

app = typer.Typer(help="Adaptations: one a release content, platform and purpose.", no_args_is_help=True)
SCHEMA = "dayzero.run/1"
FOLLOW_EVERY_S = 1.0
SHOWN = ("id", "purpose", "model", "platform", "mode", "state", "attempt", "stage", "reason", "requested_at", "finished_at")
Json_ = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Id = Annotated[str, typer.Argument(help="Id of an adaptation, or its beginning.")]


@app.command()
def ls(
    context: typer.Context,
    model: Annotated[str | None, typer.Option(help="Only this model, by its name or an alias.")] = None,
    state: Annotated[AdaptationState | None, typer.Option(help="Only those that stand so.")] = None,
    json: Json_ = False,
) -> None:
    """Adaptations, the newest first."""
    with open_plane(context) as plane:
        found = plane.catalog.adaptations(model=model, state=state)
    if json:
        print_document({"schema": SCHEMA, "adaptations": [plain(one) for one in found]})
        return
    print_table(f"{len(found)} adaptations", [_row(one) for one in found])


@app.command()
def show(context: typer.Context, adaptation: Id, json: Json_ = False) -> None:
    """One adaptation with its checks, measurements and results (re-used ones are marked)."""
    with open_plane(context) as plane:
        found = _named(plane.catalog, adaptation)
        checks = plane.ledger.checks(found.id)
        measurements = plane.ledger.measurements(found.id)
        results = plane.ledger.linked_results(found.id)
    linked: list[dict[str, Json]] = [
        {
            "stage": stored.key.stage,
            "version": stored.key.stage_version,
            "inputs": stored.key.inputs_digest,
            "reused": stored.reused,
            "computed_at": plain(stored.created_at),
            "first_attempt": stored.first_attempt,
            "last_attempt": stored.last_attempt,
        }
        for stored in results
    ]
    if json:
        parts = {"checks": plain(checks), "measurements": plain(measurements), "results": linked}
        print_document({"schema": SCHEMA, "adaptation": plain(found), **parts})
        return
    print_table(f"{found.model} on {found.platform}: {found.state.value}", [_row(found)])
    names = ("layer", "check", "rung", "verdict", "grade", "measured", "tolerance", "n", "reason")
    print_table(f"{len(checks)} checks", [{name: getattr(check, name) for name in names} for check in checks])
    figures = ("name", "value", "unit", "samples")
    print_table(f"{len(measurements)} measurements", [{name: getattr(one, name) for name in figures} for one in measurements])
    print_table(f"{len(linked)} results", [{**row, "inputs": str(row["inputs"])[:12]} for row in linked])


@app.command()
def logs(
    context: typer.Context,
    adaptation: Id,
    after: Annotated[int, typer.Option(min=0, help="Only lines after this number.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the adaptation has ended.")] = False,
    json: Json_ = False,
) -> None:
    """What an adaptation said, line by line."""
    if follow and json:
        raise BadInputError("one JSON document cannot follow a log.", remedy="Leave out --follow, or --json.")
    with open_plane(context) as plane:
        found = _named(plane.catalog, adaptation)
        if json:
            lines = [
                {"number": number, "at": plain(at), "line": line}
                for number, at, line in plane.catalog.log_lines(found.id, after)
            ]
            print_document({"schema": SCHEMA, "adaptation": found.id, "lines": lines})
            return
        while True:
            # The state is read before the lines: what is said between the two is still shown.
            going_on = plane.ledger.adaptation(found.id).state in GOING_ON
            for number, at, line in plane.catalog.log_lines(found.id, after):
                print_line(f"{at:%Y-%m-%d %H:%M:%S} {line}")
                after = number
            if not (follow and going_on):
                return
            time.sleep(FOLLOW_EVERY_S)


@app.command()
def cancel(context: typer.Context, adaptation: Id, json: Json_ = False) -> None:
    """Cancel: whoever runs it can write nothing more, and its runs are stopped."""
    with open_plane(context) as plane:
        ended = plane.catalog.cancel(_named(plane.catalog, adaptation).id)
        if ended.state is AdaptationState.CANCELLED:
            stop_runs(plane.settings, ended)
    _say(ended, json)


@app.command()
def retry(context: typer.Context, adaptation: Id, json: Json_ = False) -> None:
    """Request an adaptation again that is done, blocked, failed or cancelled; what was computed is found again."""
    with open_plane(context) as plane:
        again = plane.catalog.retry(_named(plane.catalog, adaptation).id)
    _say(again, json)


def stop_runs(settings: Settings, adaptation: Adaptation) -> None:
    """Cancel what Prefect runs of it; where Prefect is not there, its runs find at their next step that it is cancelled."""
    api_url = settings.prefect_api_url or running_prefect_api(settings.data_dir)
    if api_url is None:
        return
    from dayzero.adapters.prefect.orchestrator import PrefectOrchestrator  # importing Prefect takes seconds

    try:
        PrefectOrchestrator(api_url).cancel(adaptation)
    except DependencyError as error:
        typer.echo(f"Its runs could not be cancelled: {error}", err=True)


def _say(adaptation: Adaptation, json: bool) -> None:
    if json:
        print_document({"schema": SCHEMA, "adaptation": plain(adaptation)})
        return
    print_line(f"{adaptation.model} on {adaptation.platform} ({adaptation.purpose.value}) is {adaptation.state.value}")


def _named(catalog: Catalog, wanted: str) -> Adaptation:
    known = {one.id: one for one in catalog.adaptations()}
    return known[only_one("adaptation", wanted, list(known), "dayzero run ls")]


def _row(adaptation: Adaptation) -> dict[str, object]:
    return {name: getattr(adaptation, name) for name in SHOWN}
