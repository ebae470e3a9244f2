"""Models and their releases: what appeared on a hub, pinned by content."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import PurePath

from dayzero.domain.canonical import digest


class HubKind(StrEnum):
    """Where a model lives."""

    HUGGING_FACE = "hf"
    MODELSCOPE = "ms"
    DIRECTORY = "dir"
    CONFIG = "config"
    PYPI = "pypi"


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A model as a user names it: hub, location (repository id or path) and an optional revision."""

    hub: HubKind
    location: str
    revision: str | None = None

    def __str__(self) -> str:
        at = f"@{self.revision}" if self.revision else ""
        return f"{self.hub.value}:{self.location}{at}"


class ReleaseStage(StrEnum):
    """How far a release has come."""

    ANNOUNCED = "announced"
    CONFIG = "config"
    WEIGHTS_PARTIAL = "weights_partial"
    WEIGHTS = "weights"
    SUPERSEDED = "superseded"
    WITHDRAWN = "withdrawn"


class FileRole(StrEnum):
    """What a repository file is to adaptation; OTHER files do not enter the content id."""

    CONFIGURATION = "configuration"
    WEIGHTS = "weights"
    WEIGHTS_INDEX = "weights_index"
    TOKENIZER = "tokenizer"
    REMOTE_CODE = "remote_code"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class RepoFile:
    """One file of a repository: relative POSIX path, size, and the hub's digest of it (LFS sha256, else git blob id)."""

    path: str
    size_bytes: int
    role: FileRole
    sha256: str | None = None
    git_blob_id: str | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """One commit of one repository on one hub, with its files and the digest over those that matter.

    `repo_id` is the folder for a directory; `endpoint` the hub's URL (None: the one in the settings).
    """

    hub: HubKind
    repo_id: str
    revision: str
    stage: ReleaseStage
    files: tuple[RepoFile, ...]
    content_id: str
    endpoint: str | None = None
    published_at: datetime | None = None
    gated: bool = False

    @property
    def ref(self) -> ModelRef:
        """The pinned reference to this release."""
        return ModelRef(self.hub, self.repo_id, self.revision)

    def weight_files(self) -> tuple[RepoFile, ...]:
        """The files that hold tensors."""
        return tuple(file for file in self.files if file.role is FileRole.WEIGHTS)

    def weight_bytes(self) -> int:
        """Size of all weight files, as the hub states it."""
        return sum(file.size_bytes for file in self.weight_files())


def content_id_of(files: Iterable[RepoFile]) -> str:
    """The digest over sorted (role, path, digest) of the files that matter to adaptation.

    A file's digest is its sha256 where the hub states one, else its git blob id; a README changes nothing, and two
    hubs that state the same digests for the same files give the same id.
    """
    rows = sorted(
        (file.role.value, file.path, file.sha256 or file.git_blob_id or f"size:{file.size_bytes}")
        for file in files
        if file.role is not FileRole.OTHER
    )
    return digest(rows)


def model_name(release: Release) -> str:
    """The name of a release's model: the repository id, or for a folder or a configuration file the folder's name."""
    if release.hub not in (HubKind.DIRECTORY, HubKind.CONFIG):
        return release.repo_id
    path = PurePath(release.repo_id)
    if path.name == "config.json":
        path = path.parent
    name = path.name.removesuffix(".json") if release.hub is HubKind.CONFIG else path.name
    return name or release.repo_id
