"""The commands by name, each imported when it is called: a command pays for what it uses."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

COMMANDS: Mapping[str, str] = {
    "inspect": "models:inspect", "ops": "ops:ops", "bridge": "bridge:bridge", "plan": "plan:plan", "fetch": "models:fetch",
    "convert": "convert:convert", "export": "convert:export",
    "reshard": "reshard:reshard",
    "verify": "models:verify", "adapt": "models:adapt", "announce": "models:announce", "doctor": "health:doctor",
    "status": "health:status", "bundle": "bundle:bundle", "demo": "demo:demo", "up": "up:up", "watch": "watch:app",
    "run": "run:app", "compat": "compat:app", "report": "report:app",
    "subscribe": "subscribe:app", "platform": "platform:app", "worker": "worker:app",
    "stack": "stack:app", "baseline": "baseline:app", "hub": "hub:app", "store": "store:app", "keys": "keys:app",
    "waiver": "waiver:app", "failures": "failures:app", "token": "token:app", "embargo": "embargo:app", "claim": "claim:app",
    "mcp": "assistant:mcp", "db": "db:app",
}  # fmt: skip
"""Module and name of each command, or of the group that holds it, in the order in which help shows them."""


class Commands(TyperGroup):
    """The group of all commands."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in their order; nothing is imported."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, imported now; None where there is none."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        found: typer.Typer | Callable[..., None] = getattr(import_module(f"dayzero.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            group = typer.main.get_group(found)
            group.name = cmd_name
            return group
        alone = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
        alone.command(cmd_name)(found)
        return typer.main.get_command(alone)

    @property
    def commands(self) -> dict[str, Any]:
        """Every command, imported: for help and for those that walk the tree."""
        return {name: self.get_command(None, name) for name in COMMANDS}

    @commands.setter
    def commands(self, known: Mapping[str, Any]) -> None:
        """The base class sets what was registered with it: nothing is."""
