"""`dayzero ops`."""

from typing import Annotated

import typer

from dayzero import app
from dayzero.cli.arguments import Json, Model
from dayzero.errors import ExitCode


def ops(
    model: Model,
    platform: Annotated[str | None, typer.Option("--platform", "-p", help="Also say how it is covered there.")] = None,
    tp: Annotated[int | None, typer.Option(min=1, help="Shapes of one of so many tensor-parallel ranks.")] = None,
    collectives: Annotated[list[int] | None, typer.Option(min=2, help="Also count the collectives of this tp degree.")] = None,
    compiled: Annotated[bool, typer.Option("--compiled", help="Also compile at reduced depth: breaks, launches.")] = False,
    json: Json = False,
) -> None:
    """The operators a model needs and, for a platform, how they are covered and which are missing."""
    with app.warm_tracer() as tracer:
        # Imported here: the tracer's child imports its libraries meanwhile.
        from dayzero.cli.output import print_document, print_table
        from dayzero.domain.operators import TraceOptions
        from dayzero.settings import load_settings
        from dayzero.stages.coverage.document import ops_document
        from dayzero.stages.failures.foretelling import sentence
        from dayzero.steps import prestaging

        options = TraceOptions(tp=tp or 1, degrees=tuple(collectives or ()), compiled=compiled)
        work, needed, report = app.operators_of(load_settings(), model, platform, options, tracer)
    if json:
        print_document(ops_document(str(work.release.ref), needed, report))
    else:
        shown = [prestaging.inventory_report(needed, reused=False)]
        shown += [prestaging.coverage_report(report, reused=False)] if report is not None else []
        for step in shown:
            print_table(step.headline, step.table, notes=step.notes)
        if report is not None and platform is not None:
            known = app.foretold_for(load_settings(), platform, needed)
            print_table(
                f"{len(known)} known failures that it will meet (predicted)", [], notes=[sentence(one) for one in known]
            )
    if report is not None and report.graph_coverage is None:
        raise typer.Exit(ExitCode.NOT_MEASURED)
    if report is not None and report.gaps:
        raise typer.Exit(ExitCode.VERDICT_FAIL)
