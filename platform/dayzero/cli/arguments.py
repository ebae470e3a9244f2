"""Arguments that several commands share."""

from typing import Annotated

import typer

Model = Annotated[str, typer.Argument(help="hf:org/name[@rev], a model directory, or a config.json.")]
Platform = Annotated[str, typer.Option("--platform", "-p", help="Platform slug; see `dayzero platform ls`.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Devices = Annotated[int | None, typer.Option("--devices", min=1, help="Devices to plan for (default: DAYZERO_CPU_DEVICES).")]
Degree = Annotated[int | None, typer.Option(min=1, help="Ask for this degree instead of the best plan.")]
