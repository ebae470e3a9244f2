"""Releases that a site keeps: what is referenced, what is held, and what was let go."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from dayzero.domain.release import Release, RepoFile

_DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def stated_digest(file: RepoFile) -> str | None:
    """What the hub states of a file: its sha256, else its git blob id; None when neither is one in lower-case hex."""
    stated = file.sha256 or file.git_blob_id or ""
    return stated if _DIGEST.fullmatch(stated) else None


@dataclass(frozen=True, slots=True)
class StoredRelease:
    """The reference from one content to its objects.

    `releases` are the pinned revisions that have this content, the first that came first. `objects` gives the sha256 of the
    object for each stated digest that is held; `wanted` are the stated digests that were asked for, held or on their way.
    """

    content_id: str
    releases: tuple[Release, ...]
    objects: Mapping[str, str] = field(default_factory=dict)
    wanted: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The repositories that publish it, each once."""
        return tuple(dict.fromkeys(release.repo_id for release in self.releases))

    @property
    def sizes(self) -> Mapping[str, int]:
        """Bytes by stated digest of every file of its releases."""
        every = (file for one in self.releases for file in one.files)
        return {stated: file.size_bytes for file in every if (stated := stated_digest(file)) is not None}

    @property
    def missing(self) -> tuple[str, ...]:
        """Stated digests that were asked for and are not held."""
        return tuple(stated for stated in self.wanted if stated not in self.objects)

    def object_of(self, file: RepoFile) -> str | None:
        """The object that holds a file's bytes; None when it is not held."""
        stated = stated_digest(file)
        return self.objects.get(stated) if stated is not None else None


@dataclass(frozen=True, slots=True)
class Keep:
    """A stored release as its eviction sees it: its objects by size, when it was used last, and whether it is in use now."""

    content_id: str
    objects: Mapping[str, int]
    used_at_s: float
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class HeldRelease:
    """A stored release, the bytes of its objects, when it was used last (seconds since the epoch), and whether it is in use."""

    release: StoredRelease
    held_bytes: int
    used_at_s: float
    pinned: bool


@dataclass(frozen=True, slots=True)
class Evicted:
    """A release that was let go: its names, the bytes that became free with it, when it was used last, and why."""

    content_id: str
    names: tuple[str, ...]
    freed_bytes: int
    used_at_s: float
    why: str


@dataclass(frozen=True, slots=True)
class RoomPlan:
    """How room is made: which releases go, what that frees, and what is lacking still (0: it fits)."""

    victims: tuple[str, ...]
    freed_bytes: int
    lacking_bytes: int
    pinned_bytes: int


@dataclass(frozen=True, slots=True)
class StoreUse:
    """What a store holds: bytes of objects and of partial downloads, those that no release refers to, and its limit."""

    object_count: int
    object_bytes: int
    partial_bytes: int
    unreferenced_bytes: int
    release_count: int
    limit_bytes: int | None = None

    @property
    def used_bytes(self) -> int:
        """Everything that counts against the limit."""
        return self.object_bytes + self.partial_bytes


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep took away: objects without a reference, and partial downloads that nobody works on."""

    object_count: int
    freed_bytes: int


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check of a store read, and what was wrong: objects set aside, and references that lack theirs."""

    object_count: int
    object_bytes: int
    damaged: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
