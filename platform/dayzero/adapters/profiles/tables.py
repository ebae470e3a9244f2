"""TOML files that a user wrote, read within a limit."""

import tomllib
from pathlib import Path

from dayzero.adapters.profiles.parse import Table
from dayzero.errors import BadInputError

_LARGEST_BYTES = 1 << 20


def read_table(path: Path, what: str, *, verb: str = "is", remedy: str | None = None) -> Table:
    """The file's table; BadInputError begins with `what` (and its verb), `remedy` is for a file that cannot be read."""
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise BadInputError(f"{what} {verb} larger than {_LARGEST_BYTES} bytes.")
        return parsed_table(path.read_text(encoding="utf-8"), what, verb=verb)
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{what} cannot be read: {error}.", remedy=remedy) from error


def parsed_table(text: str, what: str, *, verb: str = "is") -> Table:
    """The text's table; BadInputError when it is no TOML."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadInputError(f"{what} {verb} not TOML: {error}.") from error
