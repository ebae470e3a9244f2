"""The public page of the method says what the code requires and checks: no more, no less."""

import re
from pathlib import Path

from dayzero.domain.entry import EntryKey
from dayzero.domain.observations import CheckName
from dayzero.domain.planning import Degrees
from dayzero.domain.verdict import Mode
from dayzero.stages.entries.checks import INTEGRITY
from dayzero.stages.entries.required import METHODS, requirements

PAGE = (Path(__file__).parents[3] / "docs" / "method.md").read_text(encoding="utf-8")
OTHERS = {"operators.coverage", "memory.weights", INTEGRITY}
"""Checks that no observation decides."""


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def named(text: str) -> set[str]:
    return set(re.findall(r"`([a-z_]+\.[a-z0-9_]+)`", text))


def test_every_check_is_in_the_table() -> None:
    first = {name for line in section("Checks").splitlines() for name in named(line.split("|")[1] if "|" in line else "")}
    assert first == {name.value for name in CheckName} | OTHERS


def test_the_requirements_are_the_codes() -> None:
    keys = [
        EntryKey("m", "c", "cpu", "f", "torch", dtype, Degrees(tp=2), Mode.FINE_TUNE)
        for dtype in ("bfloat16", "bfloat16+fp8-cache", "bfloat16+int8-cache")
    ]
    needed = {name for key in keys for need in requirements(key) for name in need.any_of}
    assert named(section("What an entry needs")) == needed


def test_the_version_is_the_codes() -> None:
    assert all(version in PAGE.splitlines()[0] for version in METHODS.values())
    assert all(f"`{version}`" in section("Versions") for version in METHODS.values())
