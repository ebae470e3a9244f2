"""A lock from requirements: what pip would install over what is here, with the sha256 of each file."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dayzero.domain.stacks import Pin, StackRecipe
from dayzero.errors import BadInputError, IntegrityError
from dayzero.installer import ask_pip
from dayzero.stages.stacks.locks import canonical, read_lock, write_lock


def locked(name: str, requirements: Sequence[str]) -> StackRecipe:
    """The packages that pip takes for the requirements beside those that are installed and fit; wheels alone.

    BadInputError: a requirement that pip would take for an option, or that is here already; else as `ask_pip`.
    """
    for text in requirements:
        if not text or text.startswith("-") or any(mark in text for mark in ("/", "\\", "@", "\n", " -")):
            raise BadInputError(
                f"{text[:100]!r} is no requirement.", remedy="Write a package as pip does: transformers==5.20.0"
            )
    with tempfile.TemporaryDirectory(prefix="dayzero-lock-") as folder:
        report = Path(folder) / "report.json"
        arguments = ("install", "--dry-run", "--quiet", "--only-binary", ":all:", "--report", str(report), *requirements)
        ask_pip(arguments, " and ".join(requirements))
        pins = _pins(report, " and ".join(requirements))
    if not pins:
        raise BadInputError(
            f"{' and '.join(requirements)} is installed here already.",
            remedy="The stack `installed` has it; name another version.",
        )
    return read_lock(name, write_lock(StackRecipe(name, pins)))


def _pins(report: Path, asked: str) -> tuple[Pin, ...]:
    try:
        items: list[Any] = json.loads(report.read_text(encoding="utf-8"))["install"]
        return tuple(_pin(item) for item in items)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise IntegrityError(
            f"the index states no sha256 for all that {asked} needs, so its bytes could not be checked.",
            remedy="Write the lock file by hand; without hashes none are compared.",
        ) from error


def _pin(item: Any) -> Pin:
    metadata = item["metadata"]
    return Pin(canonical(metadata["name"]), metadata["version"], (item["download_info"]["archive_info"]["hashes"]["sha256"],))
