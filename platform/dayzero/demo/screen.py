"""What the demo shows."""

import time
from collections.abc import Iterable
from dataclasses import fields
from datetime import datetime

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dayzero.demo.acts import Outcome
from dayzero.demo.group import Group
from dayzero.demo.receiver import Mailbox
from dayzero.domain.entry import CompatibilityEntry, DayZeroClock
from dayzero.domain.verdict import CheckLayer, Verdict

COLOURS = {Verdict.PASS: "green", Verdict.FAIL: "red", Verdict.ERROR: "yellow", Verdict.NOT_RUN: "dim"}


PIPE_WIDTH = 200
"""Columns where no terminal shows the demo."""


class Screen:
    """Prints with the seconds since the start before each line; remembers how long each phase took."""

    def __init__(self) -> None:
        console = Console(highlight=False)
        self._console = console if console.is_terminal else Console(highlight=False, width=PIPE_WIDTH)
        self._started_s = time.monotonic()

    def elapsed_s(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._started_s

    def say(self, text: str) -> None:
        """One line."""
        self._console.print(f"[dim]{self.elapsed_s():6.1f} s[/dim]  {escape(text)}", soft_wrap=True)

    def phase(self, name: str, text: str) -> None:
        """The beginning of something."""
        self._console.print(f"\n[bold]{escape(name)}[/bold]")
        self.say(text)

    def progress(self, model: str, purpose: str, line: str) -> None:
        """One line of an adaptation's log."""
        self.say(f"{model} · {purpose} · {line}")

    def entry(self, outcome: Outcome, mailbox: Mailbox) -> None:
        """The entry with its four layers, its clock, and what the subscriber got."""
        entry = outcome.entry
        self._console.print()
        if entry is None:
            self._console.print(f"[red]{escape(outcome.act.repo_id)}: no entry[/red]")
            return
        self._console.print(_checks(entry))
        for culprit in entry.culprits:
            self.say(
                f"culprit: layer {culprit.layer_index}, {culprit.module}, operator {culprit.operator}: "
                f"error {culprit.error:.3g} against {culprit.tolerance:.3g}"
            )
        if entry.sample_text:
            self.say(f"it says: {entry.sample_text!r}")
        # Figures of single ranks mean something beside their conditions only, which the entry's page has.
        shown = [item for item in entry.measurements if "rank" not in item.conditions and not item.name.startswith("rank_")]
        figures = ", ".join(f"{item.name} {item.value:,.4g}" + (f" {item.unit}" if item.unit != "1" else "") for item in shown)
        self.say(f"measured: {figures or 'nothing'}")
        self.say(f"day-0 clock: {_clock(entry.clock)}")
        got = [note for note in mailbox.messages if note.subject == outcome.act.repo_id]
        self.say(f"subscriber got {len(got)} signed messages: " + ", ".join(f"{note.kind} ({note.id})" for note in got[-3:]))
        for promise in outcome.broken_promises:
            self._console.print(f"[red]NOT AS ANNOUNCED: {escape(promise)}[/red]")

    def curtain(self, outcomes: Iterable[Outcome], group: Group) -> None:
        """The end: every act in one line, and where to look further."""
        table = Table(title="What was announced, and what came")
        for column in ("model", "announced", "correctness", "performance", "plan", "as announced"):
            table.add_column(column)
        for outcome in outcomes:
            entry = outcome.entry
            came = entry.correctness.value if entry else "no entry"
            performance = entry.performance.value if entry else "-"
            plan = str(entry.key.plan) if entry else "-"
            good = "no" if outcome.broken_promises else "yes"
            table.add_row(escape(outcome.act.repo_id), outcome.act.announced.value, came, performance, plan, good)
        self._console.print()
        self._console.print(table)
        self.say(f"Prefect UI: {group.prefect_url}   compatibility list: {group.door_url}   log: {group.log}")
        self.say("`dayzero demo --keep-up` leaves everything running to look at; without it both stop now.")


def _checks(entry: CompatibilityEntry) -> Table:
    key = entry.key
    title = f"{key.model} on {key.platform}, plan {key.plan}: {entry.correctness.value}, {entry.performance.value}"
    table = Table(title=escape(title), caption=escape(entry.reason))
    for column in ("layer", "check", "rung", "verdict", "measured", "tolerance", "n"):
        table.add_column(column)
    order = list(CheckLayer)
    for check in sorted(entry.checks, key=lambda check: (order.index(check.layer), check.check)):
        colour = COLOURS[check.verdict]
        figures = [_figure(check.measured), _figure(check.tolerance), "" if check.n is None else f"{check.n:,}"]
        verdict = f"[{colour}]{check.verdict.value}[/{colour}]"
        table.add_row(check.layer.value, check.check, check.rung, verdict, *figures)
    return table


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _clock(clock: DayZeroClock) -> str:
    moments = [(name.removesuffix("_at").replace("_", " "), at) for name, at in _moments(clock)]
    return " → ".join(f"{name} {at:%H:%M:%S}" for name, at in moments) or "nothing has happened"


def _moments(clock: DayZeroClock) -> list[tuple[str, datetime]]:
    found = [(field.name, getattr(clock, field.name)) for field in fields(clock)]
    return sorted(((name, at) for name, at in found if at is not None), key=lambda item: item[1])
