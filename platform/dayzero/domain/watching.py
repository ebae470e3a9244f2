"""Sources that are watched, and the rules by which a release is taken."""

from dataclasses import dataclass
from datetime import datetime

from dayzero.domain.release import HubKind


@dataclass(frozen=True, slots=True)
class Rule:
    """Which repositories of a source are taken, and for which platforms. None or empty: any.

    `name_pattern` is a shell pattern over the repository id; `minimum_bytes` applies to the weights of live releases.
    """

    author: str | None = None
    name_pattern: str = "*"
    task: str | None = None
    minimum_bytes: int = 0
    platforms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WatchSource:
    """A hub (or a folder) that is polled. `location` is the endpoint URL, or the folder; `since` bounds a back-fill."""

    id: str
    hub: HubKind
    location: str
    rule: Rule
    since: datetime | None = None
    enabled: bool = True
    last_polled_at: datetime | None = None
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class RepoListing:
    """One repository as a hub lists it: id, head commit, last modification, task."""

    repo_id: str
    head: str | None
    last_modified: datetime | None
    task: str | None = None
    gated: bool = False


@dataclass(frozen=True, slots=True)
class RuleDecision:
    """Whether a repository was taken, and why or why not."""

    taken: bool
    reason: str
