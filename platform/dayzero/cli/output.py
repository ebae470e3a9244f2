"""How commands print: tables for people, one JSON document for programs, errors on stderr with their exit code."""

import errno
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TextIO

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table
from rich.text import Text

from dayzero.disk import refusal, write_whole
from dayzero.domain.canonical import plain
from dayzero.domain.transfers import TransferEstimate
from dayzero.errors import BadInputError, DayzeroError, DependencyError
from dayzero.stages.transfer.estimating import estimate_sentence
from dayzero.steps.contract import refuse

PIPE_WIDTH = 200
"""Columns of a table that no terminal shows: a pipe has no width, and 80 would cut what people look for."""

_DISK_REFUSALS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO})

Row = Mapping[str, object]


def print_document(document: object) -> None:
    """The document as JSON on stdout: one document, ASCII only, so that no terminal and no locale changes it."""
    typer.echo(json.dumps(plain(document), indent=2, ensure_ascii=True, allow_nan=False))


def print_table(headline: str, rows: Sequence[Row], *, notes: Sequence[str] = ()) -> None:
    """A headline, the rows as a table (columns in order of first appearance), and notes below. Nothing in them is markup."""
    console = _console(sys.stdout)
    console.print(visible(headline), style="bold", highlight=False, markup=False)
    if rows:
        table = Table(box=None, pad_edge=False, header_style="dim")
        names = list(dict.fromkeys(name for row in rows for name in row))
        for name in names:
            table.add_column(visible(name), overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell(row.get(name))) for name in names))
        console.print(table)
    for note in notes:
        console.print(visible(f"- {note}"), highlight=False, markup=False)


def print_line(line: str) -> None:
    """One line on stdout."""
    typer.echo(visible(line))


def print_text(text: str) -> None:
    """A text of several lines on stdout, as it is: scripts are piped into files."""
    typer.echo(text.removesuffix("\n"))


def write_text(path: Path, text: str) -> None:
    """The text into a file, all of it or nothing; BadInputError where it cannot be written."""
    if path.is_dir() or not path.parent.is_dir():
        raise BadInputError(f"{path} cannot be written.", remedy="Name a file in a folder that exists.")
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")  # a pipe or a device: there is nothing to replace
        return
    try:
        write_whole(path, text.encode())
    except DependencyError as error:
        raise BadInputError(error.message, remedy="Name a file in a folder that can be written.") from error


def print_error(error: DayzeroError) -> None:
    """The error in one line on stderr: what, and what to do."""
    typer.echo(visible(f"Error: {error}"), err=True)


def disk_error(error: OSError) -> DependencyError | None:
    """What a disk's refusal means to the operator; None for an error that is not about a disk."""
    if error.errno not in _DISK_REFUSALS:
        return None
    return refusal(error.filename or "a file", error)


@contextmanager
def progress_shown() -> Iterator[Callable[[int, int], None]]:
    """What shows (done, in all) on a terminal's stderr; elsewhere nothing."""
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as progress:
        task = progress.add_task("operators", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def bytes_shown(what: str) -> Iterator[Callable[[int, int | None], None]]:
    """What shows bytes, rate and time left of (done, in all) on a terminal's stderr; elsewhere nothing."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as progress:
        task = progress.add_task(visible(what), total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def ask_approval(estimate: TransferEstimate) -> None:
    """Ask whoever sits at the terminal; BlockedError when nobody does, or the answer is no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        refuse(estimate)
    for note in estimate.notes:
        typer.echo(visible(note), err=True)
    if not typer.confirm(f"{visible(estimate_sentence(estimate))} Begin?", err=True):
        refuse(estimate)


@contextmanager
def errors_spoken() -> Iterator[None]:
    """Whatever DayzeroError is raised inside ends the command: one sentence on stderr, and the error's exit code."""
    try:
        yield
    except DayzeroError as error:
        print_error(error)
        raise typer.Exit(int(error.exit_code)) from error


def cell(value: object) -> str:
    """A value as people read it; what is not known is a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.4g}"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    return visible(str(value))


def visible(text: str) -> str:
    """The text with control characters written out: names from a hub must not drive the terminal."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def _console(stream: TextIO) -> Console:
    console = Console(file=stream)
    return console if console.is_terminal else Console(file=stream, width=PIPE_WIDTH)
