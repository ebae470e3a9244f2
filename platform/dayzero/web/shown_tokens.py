"""Whether the token that a request showed was good, as whoever checked it says: what the limits of the door go by."""

from collections.abc import Mapping
from typing import Any

from fastapi import Request

_GOOD = "token_is_good"


def mark_token(request: Request, *, good: bool) -> None:
    """Say that the request's token was checked, and how that ended."""
    request.scope.setdefault("state", {})[_GOOD] = good


def token_was_good(scope: Mapping[str, Any]) -> bool | None:
    """How the check ended; None where none was made."""
    found = scope.get("state", {}).get(_GOOD)
    return None if found is None else bool(found)
