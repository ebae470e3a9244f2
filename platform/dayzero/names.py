"""Names that a hub or a user gives, checked before any use."""

import re
from pathlib import Path

from dayzero.errors import BadInputError

_REPO_ID = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9][A-Za-z0-9._-]{0,95})?$")
_LONGEST_PATH = 1024


def safe_path(path: str, whose: str) -> str:
    """The path as it is, if it is relative, POSIX and stays inside the repository; else BadInputError names `whose` it is."""
    parts = path.split("/")
    if not path or len(path) > _LONGEST_PATH:
        wrong = "it is empty" if not path else f"it has {len(path)} characters, more than {_LONGEST_PATH}"
    elif path.startswith("/") or re.match(r"^[A-Za-z]:", path):
        wrong = "it is absolute"
    elif ".." in parts:
        wrong = "it climbs out of the repository"
    elif "\\" in path or any(ord(character) < 32 or ord(character) == 127 for character in path):
        wrong = "it holds a backslash or a control character"
    elif "" in parts or "." in parts:
        wrong = "it has an empty part"
    else:
        return path
    raise BadInputError(
        f"{whose} has a file named {path[:200]!r}, which is refused: {wrong}.",
        remedy="Take the model from another repository; its publisher has to rename the file.",
    )


def safe_repo_id(repo_id: str) -> str:
    """The repository id (org/name or name) as it is, or BadInputError."""
    if _REPO_ID.match(repo_id) and ".." not in repo_id and "--" not in repo_id:
        return repo_id
    raise BadInputError(
        f"{repo_id[:200]!r} is no repository id.", remedy="Write org/name, of letters, digits, dots, dashes and underscores."
    )


def inside(folder: Path, path: str, whose: str) -> Path:
    """Where a repository file goes under a folder; BadInputError when a link there would lead out of it."""
    target = folder / safe_path(path, whose)
    if not target.parent.resolve().is_relative_to(folder.resolve()):
        raise BadInputError(
            f"{whose}: {path!r} would be written outside {folder}, because a link there leads out of it.",
            remedy="Remove the link, or name another folder.",
        )
    return target
