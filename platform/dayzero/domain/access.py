"""Who may read and do what: viewers, tokens with scopes, embargoes, and the trail of what was done."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Scope(StrEnum):
    """What a token may do: each of read, write and admin includes those before it; worker is the ledger of one platform."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"
    WORKER = "worker"

    def allows(self, wanted: "Scope") -> bool:
        """Whether a token of this scope may do what `wanted` asks for."""
        if Scope.WORKER in (self, wanted):
            return self is wanted
        ranks = (Scope.READ, Scope.WRITE, Scope.ADMIN)
        return ranks.index(self) >= ranks.index(wanted)


SESSION_PREFIX = "dzs_"
"""What the text of a person's session begins with."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """Through whose eyes the list is read: a token's, or nobody's. `sees_all` is the operator with the database in hand."""

    token_id: str | None = None
    sees_all: bool = False


ANYONE = Viewer()
"""Who shows no token."""

OPERATOR = Viewer(sees_all=True)
"""Who holds the database's credentials: the commands of the control plane."""


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A token; only its sha256 is stored. `platform` is that of a worker's token, else None."""

    id: str
    name: str
    scope: Scope
    platform: str | None
    created_at: datetime
    expires_at: datetime
    revoked: bool = False


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """Something that somebody did: `who` is `operator` or a token's id, `subject` what it was done to."""

    id: str
    at: datetime
    who: str
    action: str
    subject: str
    detail: str


@dataclass(frozen=True, slots=True)
class Embargo:
    """A model, a platform, or a model on a platform that only the named tokens see until a moment.

    `model` is a name or an alias, also of a model that nobody has seen yet; None: every model. So is `platform`.
    """

    id: str
    model: str | None
    platform: str | None
    until: datetime
    tokens: tuple[str, ...]
    reason: str
    created_at: datetime
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Hidden:
    """What one embargo hides from a viewer: every name of a model (None: any) on a platform (None: any)."""

    models: frozenset[str] | None
    platform: str | None


@dataclass(frozen=True, slots=True)
class Sight:
    """What a viewer does not see now; the one rule that every page, feed, count and message obeys."""

    hidden: tuple[Hidden, ...] = ()

    def sees(self, model: str | None, platform: str | None = None) -> bool:
        """Whether something about that model on that platform (None: about none in particular) may be shown."""
        return not any(
            (one.models is None or model in one.models) and (one.platform is None or platform == one.platform)
            for one in self.hidden
        )
