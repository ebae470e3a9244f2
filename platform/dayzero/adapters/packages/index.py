"""Wheels by name and version: found and fetched by pip as it is configured here, kept in the data folder.

pip answers which file it would take and what sha256 the index states for it, then fetches it under exactly that sha256.
No code of the package runs: only wheels are taken, and nothing is installed.
"""

import json
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from dayzero.adapters.packages.read import sha256_of
from dayzero.errors import BadInputError, IntegrityError, NotFoundError, UnavailableError
from dayzero.installer import ask_pip

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_VERSION = re.compile(r"[0-9A-Za-z](?:[0-9A-Za-z.!+_-]{0,63})")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SAFE_ARGUMENTS = ("--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--no-input", "--quiet")
_ELSEWHERE = ("--platform", "manylinux_2_28_x86_64", "--platform", "manylinux2014_x86_64", "--python-version", "3.11",
              "--implementation", "cp")  # fmt: skip
"""What to ask for when there is no wheel for this host: the platforms whose packages are read are Linux servers."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """A package by name, and a version (None: the newest)."""

    name: str
    version: str | None

    def __str__(self) -> str:
        return f"{self.name}=={self.version}" if self.version else self.name


@dataclass(frozen=True, slots=True)
class _Found:
    """What the index offers: the file's name and sha256, and the pip arguments that choose it."""

    requirement: Requirement
    sha256: str
    choice: tuple[str, ...]


def parse_requirement(text: str) -> Requirement:
    """`name` or `name==version`; BadInputError for anything else, so that nothing reaches pip but these two."""
    name, equals, version = text.strip().partition("==")
    if not _NAME.fullmatch(name) or (equals and not _VERSION.fullmatch(version)):
        raise BadInputError(f"{text[:100]!r} names no package.", remedy="Write NAME, NAME==VERSION, or the path of a wheel.")
    return Requirement(name.lower().replace("_", "-"), version or None)


def fetch_wheel(requirement: Requirement, cache: Path, *, python: str = sys.executable) -> Path:
    """The wheel under `cache`, fetched when it is not there; its bytes are checked against the sha256 of the index each time.

    NotFoundError: no such package, version or wheel. DependencyError: no pip. UnavailableError: the index does not answer.
    IntegrityError: the bytes are others than the index says.
    """
    if requirement.version is not None:
        kept = _kept(requirement, cache)
        if kept is not None:
            return kept
    found = _resolve(requirement, python)
    kept = _kept(found.requirement, cache)
    if kept is not None and kept.parent.name == found.sha256:
        return kept
    folder = cache / found.requirement.name / str(found.requirement.version) / found.sha256
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="partial-") as partial:
        line = f"{found.requirement} --hash=sha256:{found.sha256}\n"
        (Path(partial) / "requirements.txt").write_text(line, encoding="utf-8")
        wheels = Path(partial) / "wheels"
        arguments = ("download", "--dest", str(wheels), "--require-hashes", "-r", str(Path(partial) / "requirements.txt"))
        ask_pip((*arguments, *_SAFE_ARGUMENTS, *found.choice), str(found.requirement), python=python)
        files = sorted(wheels.glob("*.whl"))
        if len(files) != 1:
            raise IntegrityError(f"pip fetched {len(files)} wheels for {found.requirement} instead of one.")
        return _checked(files[0].rename(folder / files[0].name), found.sha256)


def _kept(requirement: Requirement, cache: Path) -> Path | None:
    """A wheel of that version that was fetched before, if its bytes are still those that the index stated."""
    for path in sorted((cache / requirement.name / str(requirement.version)).glob("*/*.whl")):
        if _SHA256.fullmatch(path.parent.name):
            return _checked(path, path.parent.name)
    return None


def _checked(path: Path, sha256: str) -> Path:
    found = sha256_of(path)
    if found != sha256:
        path.unlink()
        raise IntegrityError(
            f"{path.name} has sha256 {found} and the index states {sha256}; it was removed.", remedy="Try again."
        )
    return path


def _resolve(requirement: Requirement, python: str) -> _Found:
    """What the index offers for this host, else for a Linux server."""
    with tempfile.TemporaryDirectory(prefix="dayzero-index-") as folder:
        report = Path(folder) / "report.json"
        arguments = ("install", "--dry-run", "--ignore-installed", "--report", str(report), *_SAFE_ARGUMENTS)
        try:
            choice: tuple[str, ...] = ()
            ask_pip((*arguments, str(requirement)), str(requirement), python=python)
        except NotFoundError:
            choice = _ELSEWHERE
            target = ("--target", str(Path(folder) / "target"))
            ask_pip((*arguments, *target, *choice, str(requirement)), str(requirement), python=python)
        return _reported(report, requirement, choice)


def _reported(report: Path, asked: Requirement, choice: tuple[str, ...]) -> _Found:
    try:
        (item,) = json.loads(report.read_text(encoding="utf-8"))["install"]
        sha256 = item["download_info"]["archive_info"]["hashes"]["sha256"]
        version = item["metadata"]["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise IntegrityError(
            f"the index states no sha256 for {asked}, so its bytes could not be checked.",
            remedy="Fetch the wheel yourself and name its path.",
        ) from error
    if not isinstance(version, str) or not _VERSION.fullmatch(version) or not _SHA256.fullmatch(str(sha256)):
        raise IntegrityError(f"the index answers for {asked} with a version or sha256 that is none.")
    return _Found(Requirement(asked.name, version), sha256, choice)


def available_versions(name: str, *, python: str = sys.executable) -> tuple[str, ...]:
    """Releases of a package, without pre-releases, the newest first. NotFoundError: there are none; else as fetch_wheel."""
    requirement = Requirement(parse_requirement(name).name, None)
    arguments = ("index", "versions", requirement.name, "--json", "--disable-pip-version-check", "--no-input")
    try:
        versions = json.loads(ask_pip(arguments, str(requirement), python=python))["versions"]
    except (ValueError, KeyError, TypeError) as error:
        raise UnavailableError(f"pip does not list the releases of {requirement} in a form that is known.",
                               remedy="Update pip to 25.1 or newer.") from error  # fmt: skip
    if not isinstance(versions, list) or not all(isinstance(one, str) and _VERSION.fullmatch(one) for one in versions):
        raise IntegrityError(f"the index lists releases of {requirement} that are none.")
    return tuple(versions)
