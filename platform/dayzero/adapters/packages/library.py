"""A modelling library's releases as a hub of architectures: each model type that a release knows first is announced by it.

The wheels are read as data, never installed or run. What an announced architecture offers is one file, config.json: the
defaults of its configuration class.
"""

import hashlib
import itertools
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath

from dayzero.adapters.packages.archive import Archive, open_wheel
from dayzero.adapters.packages.index import Requirement, available_versions, fetch_wheel, parse_requirement
from dayzero.domain.release import FileRole, HubKind, Release, ReleaseStage, RepoFile, content_id_of
from dayzero.domain.watching import RepoListing
from dayzero.errors import BadInputError, NotFoundError
from dayzero.ports.hub import Progress
from dayzero.stages.configuration.library_types import (
    REGISTRIES,
    default_configuration,
    model_types,
    nested_configuration,
    parts_of,
    whole_architectures,
)

COMPARED = 3
"""How many releases are compared with the one before each: more than appear between two polls."""


def library_types(package: str, version: str, cache: Path) -> frozenset[str]:
    """The model types that a release of a modelling library knows, read from its wheel; errors as fetch_wheel's."""
    with open_wheel(fetch_wheel(Requirement(package, version), cache)) as archive:
        return frozenset(_types(archive, package))


@dataclass(frozen=True, slots=True)
class _Known:
    """The model types of one release, with the names of their configuration classes."""

    version: str
    types: dict[str, str]


class LibraryHub:
    """Releases of one package (`transformers`) as ports.hub.Hub; `cache` keeps the wheels that were read."""

    def __init__(self, package: str, cache: Path) -> None:
        self._package = parse_requirement(package).name
        self._cache = cache

    def list_repos(
        self, *, author: str | None, task: str | None, since: datetime | None, limit: int | None
    ) -> Iterator[RepoListing]:
        """package/type for every model type that one of the newest releases knows and the one before it did not; a type that is
        part of another (its text model, a tower) is no architecture of its own.

        The head of each is the release that knew it first. A package has neither authors nor tasks: naming one finds nothing.
        """
        if author or task:
            return
        versions = available_versions(self._package)[: COMPARED + 1]
        if not versions:
            raise NotFoundError(f"there is no release of {self._package} to read.")
        known = [self._known(version) for version in versions]
        announced = 0
        for newer, older in itertools.pairwise(known):
            for model_type in sorted(whole_architectures(newer.types) - set(older.types)):
                if limit is not None and announced >= limit:
                    return
                announced += 1
                yield RepoListing(f"{self._package}/{model_type}", newer.version, None)

    def release(self, repo_id: str, revision: str | None) -> Release:
        """The architecture as that release of the package describes it; NotFoundError when it does not know it."""
        version = revision or next(iter(available_versions(self._package)), None)
        if version is None:
            raise NotFoundError(f"there is no release of {self._package} to read.")
        text = self._configuration(repo_id, version).encode()
        file = RepoFile("config.json", len(text), FileRole.CONFIGURATION, hashlib.sha256(text).hexdigest())
        return Release(HubKind.PYPI, repo_id, version, ReleaseStage.ANNOUNCED, (file,), content_id_of((file,)))

    def read_small(self, release: Release, path: str, max_bytes: int) -> bytes:
        """The derived config.json."""
        whole = self._bytes(release, path)
        if len(whole) > max_bytes:
            raise BadInputError(
                f"config.json of {release.ref} has {len(whole)} bytes, more than the {max_bytes} that are read."
            )
        return whole

    def read_range(self, release: Release, path: str, begin: int, end: int) -> bytes:
        """Bytes [begin, end) of the derived config.json."""
        whole = self._bytes(release, path)
        if not 0 <= begin <= end <= len(whole):
            raise BadInputError(f"bytes {begin} to {end} of {path} of {release.ref} are asked for; it has {len(whole)}.")
        return whole[begin:end]

    def stream(
        self, release: Release, path: str, ranges: Sequence[tuple[int, int]], *, connections: int = 1
    ) -> Generator[tuple[int, memoryview], None, None]:
        """The ranges of the derived config.json, each in one window."""
        for begin, end in ranges:
            yield begin, memoryview(self.read_range(release, path, begin, end))

    def download(self, release: Release, path: str, into: Path, progress: Progress | None) -> Path:
        """There are no weights to download."""
        raise BadInputError(f"{release.ref} is an architecture, and has no files to download.")

    def _bytes(self, release: Release, path: str) -> bytes:
        if path != "config.json":
            raise NotFoundError(f"there is no file {path} in {release.ref}.")
        return self._configuration(release.repo_id, release.revision).encode()

    def _known(self, version: str) -> _Known:
        with self._open(version) as archive:
            return _Known(version, _types(archive, self._package))

    def _configuration(self, repo_id: str, version: str) -> str:
        package, _, model_type = repo_id.partition("/")
        with self._open(version) as archive:
            types = _types(archive, self._package)
            if package != self._package or model_type not in types:
                raise NotFoundError(f"{self._package} {version} knows no model type {model_type}.")
            described = {
                part: self._defaults(archive, part, types[part]) for part in (model_type, *parts_of(model_type, types))
            }
        if described[model_type] is None:
            raise NotFoundError(f"{types[model_type]} is in no configuration module of {self._package} {version}.")
        return nested_configuration(model_type, {part: text for part, text in described.items() if text is not None})

    def _defaults(self, archive: Archive, model_type: str, class_name: str) -> str | None:
        for member in _sources(archive, self._package, model_type):
            text = default_configuration(archive.text(member), class_name, model_type)
            if text is not None:
                return text
        return None

    def _open(self, version: str) -> AbstractContextManager[Archive]:
        return open_wheel(fetch_wheel(Requirement(self._package, version), self._cache))


def _types(archive: Archive, package: str) -> dict[str, str]:
    registries = [f"{package}/models/auto/{name}" for name in REGISTRIES if f"{package}/models/auto/{name}" in archive.names]
    if not registries:
        raise BadInputError(
            f"the package {package} has no registry of model types.", remedy="Watch a modelling library: pypi:transformers."
        )
    return {key: name for member in registries for key, name in model_types(archive.text(member)).items()}


def _sources(archive: Archive, package: str, model_type: str) -> list[str]:
    """Configuration modules, that of the type's own folder first."""
    own = model_type.replace("-", "_")
    modules = (name for name in archive.names if name.startswith(f"{package}/models/") and name.endswith(".py"))
    found = [name for name in modules if PurePosixPath(name).name.startswith("configuration_")]
    return sorted(found, key=lambda name: (PurePosixPath(name).parent.name != own, name))
