"""One screen of blocks on a terminal: bars in colour and in letters, so that they are read without colour too."""

import sys
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dayzero.cli.output import cell, print_document, print_text, visible, write_text
from dayzero.domain.reports import Bar, Block
from dayzero.errors import NotFoundError
from dayzero.stages.explaining.memory import bar_cells, letter_of, needed_bytes
from dayzero.steps.explaining import Explained
from dayzero.steps.plan_document import plan_document

WIDTH = 100
"""Columns where no terminal says how many it has."""

BAR_CELLS, LEAST_CELLS, INDENT, SAID_COLUMNS = 40, 12, 12, 48
"""A bar gives way to what is said after it, down to so many cells."""

COLOURS = {
    "weights": "blue", "redundant_experts": "cyan", "state": "green", "activations": "yellow", "logits": "magenta",
    "expert_buffers": "bright_cyan", "communication_buffers": "bright_yellow", "reserve": "bright_black", "gradients": "red",
    "master_weights": "bright_blue", "moments": "bright_green", "adapters": "bright_magenta", "gradient_copies": "bright_red",
}  # fmt: skip

DARK = frozenset({"blue", "green", "magenta", "red", "bright_black"})
"""Colours on which light letters are read."""


def show_plan(found: Explained, *, svg: Path | None, launch: str | None, pool: str | None, json: bool) -> None:
    """A plan as it was asked for: an engine's script (or a pool's), the document, or the screen; and its picture in a file."""
    undrawn = None
    if svg is not None:
        # First: whoever reads the screen through a pipe may stop reading it.
        try:
            write_text(svg, found.picture())
        except NotFoundError as error:
            undrawn = error
    if launch is not None:
        print_text(found.script(launch, pool))
    elif json:
        print_document(plan_document(found))
    else:
        print_screen(found.screen())
    if undrawn is not None:
        raise undrawn


def print_screen(blocks: tuple[Block, ...]) -> None:
    """The blocks on stdout, the first title as the headline."""
    console = Console(file=sys.stdout, highlight=False)
    if not console.is_terminal:
        console = Console(file=sys.stdout, width=WIDTH, highlight=False)
    for number, block in enumerate(blocks):
        console.print(Text(visible(block.title), style="bold" if number == 0 else "bold cyan"))
        order = tuple(name for name, _ in block.legend)
        for bar in block.bars:
            console.print(_bar(bar, order, max(LEAST_CELLS, min(BAR_CELLS, console.width - INDENT - SAID_COLUMNS))))
        if block.legend:
            console.print(_legend(block.legend, console.width))
        if block.rows:
            console.print(_table(block))
        for line in block.lines:
            console.print(_line(visible(line)))


def _line(line: str) -> Padding:
    return Padding(Text(line, style="yellow" if line.startswith(("warning:", "error:")) else ""), (0, 0, 0, 2), expand=False)


def _cell_style(item: str) -> str:
    """Letters that are read on the item's colour."""
    colour = COLOURS.get(item, "white")
    return f"bright_white on {colour}" if colour in DARK else f"black on {colour}"


def _bar(bar: Bar, order: tuple[str, ...], cells: int) -> Text:
    text = Text("  ") + Text(f"{visible(bar.label):<9} ", style="dim")
    filled = 0
    limit_at = None
    needed = needed_bytes(bar.items_bytes)
    if bar.limit_bytes is not None and needed > bar.limit_bytes:
        limit_at = bar.limit_bytes * cells // needed
    for name, count in bar_cells(bar.items_bytes, bar.limit_bytes, cells):
        letter = "·" if name == "free" else letter_of(name, order)
        style = "dim" if name == "free" else _cell_style(name)
        for _ in range(count):
            if filled == limit_at:
                text.append("┃", style="bold red")
            text.append(letter, style=style)
            filled += 1
    return text.append(f" {visible(bar.said)}")


def _legend(legend: tuple[tuple[str, str], ...], columns: int) -> Padding:
    """Items beside each other; a figure stays on the line of its item."""
    text, used = Text(), 0
    for name, said in ((name, visible(said)) for name, said in legend):
        if used and used + len(said) + 2 > columns - INDENT:
            text.append("\n")
            used = 0
        text.append("  " if used else "")
        text.append(said[:1], style=_cell_style(name))
        text.append(said[1:])
        used += len(said) + (2 if used else 0)
    return Padding(text, (0, 0, 0, INDENT), expand=False)


def _table(block: Block) -> Table:
    table = Table(box=None, pad_edge=True, header_style="dim", padding=(0, 2, 0, 0))
    # A column that nobody fills says nothing.
    names = list(dict.fromkeys(name for row in block.rows for name, value in row.items() if value is not None))
    for number, name in enumerate(names):
        last = number == len(names) - 1
        table.add_column(visible(("  " if number == 0 else "") + name), overflow="fold", no_wrap=not last and number < 2)
    for row in block.rows:
        cells = [Text(cell(row.get(name))) for name in names]
        table.add_row(Text("  ") + cells[0], *cells[1:])
    return table
