"""How commands reach the control plane."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import typer

from dayzero import app
from dayzero.errors import BadInputError, NotFoundError
from dayzero.settings import Settings, load_settings

if TYPE_CHECKING:
    from dayzero.app import Plane

Opener = Callable[[Settings], AbstractContextManager["Plane"]]


@contextmanager
def open_plane(context: typer.Context) -> Iterator["Plane"]:
    """The control plane of this command: from the opener that its context carries (tests give one), else the real one."""
    opener: Opener = context.obj or app.control_plane
    with opener(load_settings()) as plane:
        yield plane


def only_one(what: str, wanted: str, ids: list[str], see: str) -> str:
    """The one id that begins with what was written; NotFoundError for none, BadInputError for several."""
    found = [known for known in ids if wanted and known.startswith(wanted)]
    if wanted in found:
        return wanted
    if not found:
        raise NotFoundError(f"there is no {what} {wanted[:80]!r}.", remedy=f"See `{see}`.")
    if len(found) > 1:
        raise BadInputError(f"{len(found)} ids of a {what} begin with {wanted}.", remedy="Give more of the id.")
    return found[0]
