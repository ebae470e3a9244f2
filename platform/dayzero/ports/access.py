"""Who may read and do what; each method is one transaction."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from dayzero.domain.access import AccessToken, AuditRecord, Embargo, Scope, Sight, Viewer
from dayzero.domain.signing_in import Identity, Pending


class Access(Protocol):
    """Tokens for people and programs, and the trail of what was done with them."""

    def issue(self, name: str, scope: Scope, valid_s: float) -> tuple[str, AccessToken]:
        """A new token (shown once) of that scope. BadInputError for a worker's: those are issued for a platform."""
        ...

    def check(self, token: str) -> AccessToken | None:
        """The token, or None when it is unknown, revoked or has expired."""
        ...

    def tokens(self) -> Sequence[AccessToken]:
        """Every token, the newest first."""
        ...

    def revoke(self, token_id: str) -> AccessToken:
        """End it now, once. NotFoundError."""
        ...

    def record(self, who: str, action: str, subject: str, detail: str = "") -> None:
        """Add a line to the trail; lines are never changed."""
        ...

    def trail(self, limit: int = 100) -> Sequence[AuditRecord]:
        """The newest lines of the trail, the newest first."""
        ...


class Sessions(Protocol):
    """People who signed in. A person keeps the id of one token for good; each of their sessions is a text of its own."""

    def spend(self, state: str, within_s: float) -> bool:
        """Use up the state of a sign-in, which nobody may show again within that time; False when it was used before."""
        ...

    def begin(self, identity: Identity, scope: Scope, valid_s: float) -> tuple[str, AccessToken]:
        """A new session (its text is shown once). BlockedError when the person's token was revoked."""
        ...

    def end(self, text: str) -> AccessToken | None:
        """End that session; None when the text is of none, a token's for example."""
        ...


class IdentityProvider(Protocol):
    """Somebody else who knows people."""

    @property
    def issuer(self) -> str:
        """Its name."""
        ...

    def begin(self) -> tuple[str, Pending]:
        """The address to send a browser to, and what to keep meanwhile. UnavailableError, BadInputError: it cannot be used."""
        ...

    def finish(self, pending: Pending, code: str) -> Identity:
        """Who came back with the code. BadInputError: what it says does not hold, and why. UnavailableError: it is down."""
        ...


class Seals(Protocol):
    """What a browser keeps for us, which it can neither read nor change."""

    def seal(self, pending: Pending) -> str:
        """As a text for a cookie."""
        ...

    def opened(self, text: str, within_s: int) -> Pending:
        """What was sealed, that long ago at most. BadInputError."""
        ...


class Embargoes(Protocol):
    """What only some tokens see, and until when."""

    def place(self, model: str | None, platform: str | None, until: datetime, tokens: Sequence[str], reason: str) -> Embargo:
        """Hide it from all but these tokens. BadInputError: nothing, or in the past. NotFoundError: no such token."""
        ...

    def lift(self, embargo_id: str) -> Embargo:
        """End it now, once. NotFoundError."""
        ...

    def embargoes(self) -> Sequence[Embargo]:
        """Every embargo, the oldest first, also those that are over."""
        ...

    def sight(self, viewer: Viewer) -> Sight:
        """What that viewer does not see now."""
        ...
