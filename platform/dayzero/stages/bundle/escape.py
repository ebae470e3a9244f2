"""Strings that a hub supplied, made harmless for the place they are written to: shell, YAML, Markdown, CSV."""

import html
import json
import re
import shlex
from collections.abc import Sequence

_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#!|~>])")
_LIST_MARK = re.compile(r"^(\s*(?:[0-9]+(?=\.(?:\s|$))|(?=[-+=])))")
_FORMULA = ("=", "+", "-", "@")


def clean(text: str) -> str:
    """One line of text that every file can hold: control characters and lone surrogates become U+FFFD."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def shell_word(text: str) -> str:
    """One word of a POSIX shell, whatever is in it."""
    return shlex.quote(clean(text))


def compose_text(text: str) -> str:
    """A double-quoted YAML scalar in which Compose interpolates nothing."""
    return json.dumps(clean(text)).replace("$", "$$")


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it is: no markup, no HTML, no link, no table cell's end."""
    return _LIST_MARK.sub(r"\1\\", _MARKDOWN.sub(r"\\\1", html.escape(clean(text), quote=False)))


def fenced(text: str) -> str:
    """A Markdown code block around several lines of text; its fence is longer than any in the text."""
    lines = [clean(line) for line in text.splitlines()]
    fence = "`" * max(3, 1 + max((len(run) for line in lines for run in re.findall("`+", line)), default=0))
    return "\n".join((f"{fence}text", *lines, fence))


def csv_text(text: str) -> str:
    """Text that no spreadsheet takes for a formula (an apostrophe goes before one)."""
    cleaned = clean(text)
    return f"'{cleaned}" if cleaned.lstrip().startswith(_FORMULA) else cleaned


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table of escaped cells; no rows is said in words."""
    if not rows:
        return "None."
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(markdown_text(value) or " " for value in row) + " |" for row in rows]
    return "\n".join(lines)
