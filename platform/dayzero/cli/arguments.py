"""Arguments that several commands share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dayzero.domain.planning import Degrees
from dayzero.domain.verdict import Mode
from dayzero.errors import BadInputError

if TYPE_CHECKING:
    from dayzero.settings import Settings

Model = Annotated[str, typer.Argument(help="hf:org/name[@rev], a model directory, or a config.json.")]
Platform = Annotated[str, typer.Option("--platform", "-p", help="Platform slug; see `dayzero platform ls`.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Devices = Annotated[int | None, typer.Option("--devices", min=1, help="Devices to plan for (default: DAYZERO_CPU_DEVICES).")]
Degree = Annotated[int | None, typer.Option(min=1, help="Ask for this degree instead of the best plan.")]
ForMode = Annotated[Mode, typer.Option("--mode", help="What the model is adapted for.")]

Policy = Annotated[Path | None, typer.Option("--policy", help="Precision policy (a file) that the target's modules follow.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Approve a large transfer beforehand.")]


def degrees_of(
    tp: int | None, pp: int | None, ep: int | None, dp: int | None, cp: int | None = None, etp: int | None = None
) -> Degrees | None:
    """The degrees that were asked for; None when none was."""
    if tp is pp is ep is dp is cp is etp is None:
        return None
    return Degrees(tp or 1, pp or 1, ep or 1, dp or 1, cp or 1, etp or 1)


def ranks_of(text: str | None) -> tuple[int, ...]:
    """The ranks that a user names, as 0,1 or 0-7; () for none. BadInputError for anything else."""
    found: set[int] = set()
    for part in text.split(",") if text is not None else ():
        first, dash, last = part.strip().partition("-")
        if not (first.isascii() and first.isdigit() and len(first) < 8) or (dash and not (last.isdigit() and len(last) < 8)):
            raise BadInputError(f"{text!r} names no ranks.", remedy="Write them as 0,1 or 0-7.")
        found.update(range(int(first), int(last or first) + 1))
    if text is not None and not found:
        raise BadInputError(f"{text!r} names no ranks.", remedy="Write them as 0,1 or 0-7.")
    return tuple(sorted(found))


def sized(devices: int | None, degrees: Degrees | None) -> "Settings":
    """The settings with as many devices as were asked for, or as the degrees take."""
    from dayzero.settings import load_settings

    settings = load_settings()
    wanted = devices or (max(degrees.world, settings.cpu_devices) if degrees else settings.cpu_devices)
    return settings.model_copy(update={"cpu_devices": wanted})
