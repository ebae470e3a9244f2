"""What a pipeline step tells the people who watch it."""

from collections.abc import Mapping
from dataclasses import dataclass

from dayzero.domain.verdict import Verdict

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class StepReport:
    """One step's outcome for people: a headline, a table, and whether the result was found again instead of computed.

    `verdict` is the worst of the checks that the step judged; None for a step that judges nothing.
    """

    step: str
    headline: str
    reused: bool = False
    table: tuple[Mapping[str, Cell], ...] = ()
    notes: tuple[str, ...] = ()
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of parts against a limit (None: not known), with a label before it and what is said after it."""

    label: str
    items_bytes: Mapping[str, int]
    limit_bytes: int | None
    said: str


@dataclass(frozen=True, slots=True)
class Block:
    """One part of a screen: a title, bars, a table, and lines of text below; `legend` says what the bars' items are."""

    title: str
    bars: tuple[Bar, ...] = ()
    legend: tuple[tuple[str, str], ...] = ()
    rows: tuple[Mapping[str, Cell], ...] = ()
    lines: tuple[str, ...] = ()
