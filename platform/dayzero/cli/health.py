"""`dayzero doctor` and `dayzero status`."""

from typing import Annotated

import typer

from dayzero import app as dayzero
from dayzero.cli.output import print_document, print_table
from dayzero.domain.canonical import plain
from dayzero.errors import ExitCode
from dayzero.settings import load_settings

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def doctor(json: Json = False) -> None:
    """What is installed and answers here, and what to do about the rest."""
    findings = dayzero.examine(load_settings())
    if json:
        print_document({"schema": "dayzero.doctor/1", "findings": plain(findings)})
    else:
        rows = [{"part": found.part, "state": found.state, "what": found.message} for found in findings]
        print_table("doctor", rows)
    if any(found.needed and not found.good for found in findings):
        raise typer.Exit(ExitCode.DEPENDENCY)


def status(json: Json = False) -> None:
    """What runs now: adaptations under way, workers, and the current entries."""
    with dayzero.control_plane(load_settings()) as plane:
        summary = dayzero.status_of(plane)
    if json:
        print_document({"schema": "dayzero.status/1", **summary})
    else:
        print_table("status", [{"what": key, "value": str(value)} for key, value in summary.items()])
