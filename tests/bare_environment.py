"""An environment that holds a wheel and what the wheel declares to need, and nothing else of what is installed here.

The distributions needed are linked from the running environment, where the resolver put them: nothing is fetched again.
"""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def environment_with(wheel: Path, folder: Path) -> Path:
    """The folder of its programs; PackageNotFoundError when something that the wheel needs is not installed here."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", str(wheel)]
    subprocess.run(install, check=True, cwd=folder)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    (own,) = importlib.metadata.distributions(path=[str(packages)])
    for needed in needed_by(own.requires or []):
        link(needed, packages)
    return folder / "bin"


def needed_by(requires: list[str]) -> Iterator[importlib.metadata.Distribution]:
    """Every installed distribution that the requirements lead to, each once."""
    seen: set[tuple[str, str]] = set()
    waiting = [(text, "") for text in requires]
    while waiting:
        text, asked_extra = waiting.pop()
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": asked_extra}):
            continue
        distribution = importlib.metadata.distribution(requirement.name)
        name = canonicalize_name(requirement.name)
        assert requirement.specifier.contains(distribution.version, prereleases=True), (text, distribution.version)
        if not any(known == name for known, _ in seen):
            yield distribution
        for extra in {"", *requirement.extras}:
            if (name, extra) not in seen:
                seen.add((name, extra))
                waiting += [(needed, extra) for needed in distribution.requires or []]


def link(distribution: importlib.metadata.Distribution, packages: Path) -> None:
    """Its files below the folder as hard links, or as copies where the two lie on different disks; programs are left out."""
    for file in distribution.files or []:
        source, target = Path(str(file.locate())), packages / file
        if ".." in file.parts or not source.is_file():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, target)
        except FileExistsError:
            continue
        except OSError:
            shutil.copy2(source, target)
