"""The command's start: what help and version cost, and that every command is found."""

import subprocess
import sys
from importlib import metadata

from dayzero.cli.commands import COMMANDS

HEAVY = ("torch", "transformers", "sqlalchemy", "prefect", "fastapi", "pydantic", "httpx", "dayzero.app.planes")


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, timeout=120)


def test_version_is_the_distribution_s_and_imports_nothing_heavy() -> None:
    code = "import sys; sys.argv = ['dayzero', '--version']\nfrom dayzero.cli.main import app\ntry: app()\nfinally: "
    done = run("-c", code + f"print([name for name in {HEAVY} if name in sys.modules])")
    assert done.stdout.splitlines() == [f"dayzero {metadata.version('dayzero')}", "[]"], done.stderr


def test_planning_from_a_configuration_needs_no_database() -> None:
    code = "import sys, dayzero.cli.models, dayzero.app; dayzero.app.local_work\n"
    done = run("-c", code + "print([name for name in ('sqlalchemy', 'psycopg', 'torch') if name in sys.modules])")
    assert done.stdout.strip() == "[]", done.stderr


def test_help_names_every_command_and_an_unknown_one_is_refused() -> None:
    shown = run("-m", "dayzero.cli.main", "--help").stdout
    assert [name for name in COMMANDS if f"│ {name} " not in shown] == []
    refused = run("-m", "dayzero.cli.main", "adopt")
    assert refused.returncode == 2
    assert "No such command 'adopt'" in refused.stderr
