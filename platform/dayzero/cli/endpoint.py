"""`dayzero verify --endpoint`: a running server from outside."""

import os

import typer

from dayzero import app
from dayzero.cli.output import print_document, print_table
from dayzero.domain.outcomes import VERDICT_ENDINGS
from dayzero.settings import load_settings
from dayzero.steps.documents import endpoint_document
from dayzero.steps.verifying import check_row

KEY = "DAYZERO_ENDPOINT_KEY"


def verify_endpoint(url: str, model: str | None, *, json: bool) -> None:
    """Verify, print, and exit with the code of the check that decides."""
    found = app.verify_endpoint(load_settings(), url, model, os.environ.get(KEY))
    if json:
        print_document(endpoint_document(found.observed, found.checks, found.measurements, found.deciding))
    else:
        print_table(f"{found.observed.model} at {found.observed.url}", [check_row(check) for check in found.checks])
        rows = [
            {
                "measured": one.name,
                "value": one.value,
                "unit": one.unit,
                "streams": one.conditions.get("streams"),
                "n": one.samples,
            }
            for one in found.measurements
        ]
        print_table("Seen from a client, network and queue included", rows)
        print_table(f"{found.deciding.verdict.value}: {found.deciding.reason}", ())
    raise typer.Exit(VERDICT_ENDINGS[found.deciding.verdict].exit_code)
