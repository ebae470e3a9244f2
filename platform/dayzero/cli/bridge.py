"""dayzero bridge: gaps into verified implementations."""

import typer

from dayzero import app
from dayzero.cli.arguments import Json, Model, Platform
from dayzero.cli.output import print_document, print_table
from dayzero.domain.canonical import plain
from dayzero.domain.verdict import Verdict
from dayzero.errors import ExitCode
from dayzero.settings import load_settings
from dayzero.stages.coverage.bridging import bridge_rows
from dayzero.steps.bridging import Bridged


def bridge(model: Model, platform: Platform, json: Json = False) -> None:
    """Bridge the operators that a platform of this host lacks for a model; each is verified against float64 and kept."""
    done = app.bridge_here(load_settings(), model, platform)
    report = done.bridged.coverage
    if json:
        print_document(
            {
                "schema": "dayzero.bridge/1",
                "model": done.model,
                "platform": report.platform,
                "bridges": plain(done.bridged.bridges),
                "coverage": {"graph_coverage": report.graph_coverage, "grade": report.grade.value, "gaps": plain(report.gaps)},
            }
        )
    else:
        left = f"{len(report.gaps)} gaps left" if report.gaps else "no gap left"
        notes = tuple(f"{bridge.operator}: {line}" for bridge in done.bridged.bridges for line in bridge.tried)
        print_table(f"{done.model} on {report.platform}: {left}", bridge_rows(done.bridged.bridges), notes=notes)
    raise typer.Exit(exit_code(done.bridged))


def exit_code(done: Bridged) -> ExitCode:
    """0 when no gap is left; 3 when coverage is unknown or a candidate could not be run; else 1."""
    if done.coverage.graph_coverage is None or any(bridge.verdict is Verdict.ERROR for bridge in done.bridges):
        return ExitCode.NOT_MEASURED
    return ExitCode.VERDICT_FAIL if done.coverage.gaps else ExitCode.OK
