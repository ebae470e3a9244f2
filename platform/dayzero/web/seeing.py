"""What the pages need of the control plane, and how a request's viewer reaches it."""

from collections.abc import Callable
from typing import Protocol

from fastapi import Request

from dayzero.domain.access import Viewer
from dayzero.ports.access import Access
from dayzero.ports.catalog import Catalog
from dayzero.ports.ledger import Ledger
from dayzero.ports.reading import Reading
from dayzero.ports.running import Clock

Eyes = Callable[[Request], Viewer]
"""The viewer of a request; refuses where reading needs a token."""


class Seen(Protocol):
    """The control plane as pages read it."""

    @property
    def reading(self) -> Reading:
        """The list and the work."""
        ...

    @property
    def access(self) -> Access:
        """Who the tokens are."""
        ...

    @property
    def catalog(self) -> Catalog:
        """Where work is cancelled and retried."""
        ...

    @property
    def ledger(self) -> Ledger:
        """Where the checks of a run are."""
        ...

    @property
    def clock(self) -> Clock:
        """What ages are counted from."""
        ...
