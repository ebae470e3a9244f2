"""pip, as it is configured on this host: asked what it would take, told to fetch or to install it."""

import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence

from dayzero.errors import DependencyError, IntegrityError, NotFoundError, UnavailableError

MAX_WHEEL_BYTES = 4 * 2**30
"""The largest file that pip may write here: torch for accelerators has about 1 GB."""

_TIMEOUT_S = 1800.0
_TAIL_CHARACTERS = 600
_ALWAYS = ("--disable-pip-version-check", "--no-input")


def ask_pip(arguments: Sequence[str], subject: str, *, python: str = sys.executable) -> str:
    """What pip wrote to its standard output; `subject` is what it is asked about, in words.

    NotFoundError: no such package, version or wheel. DependencyError: no pip, or packages that exclude each other.
    IntegrityError: the bytes are others than the index or the lock says. UnavailableError: the index does not answer.
    """
    command = [python, "-I", "-m", "pip", *arguments, *_ALWAYS]
    try:
        run = subprocess.run(
            command, env=_environment(os.environ), stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S,
            check=False, preexec_fn=_limit_files,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"fetching {subject} took longer than {_TIMEOUT_S:g} s and was stopped.") from error
    except OSError as error:
        raise DependencyError(f"cannot start {python}: {error}.", remedy="Install pip there.") from error
    if run.returncode == 0:
        return run.stdout.decode("utf-8", "replace")
    said = run.stderr.decode("utf-8", "replace").strip()
    if "No module named pip" in said:
        raise DependencyError("pip is not installed here.", remedy="Install pip, or fetch the wheel and name its path.")
    if "ResolutionImpossible" in said or "conflicting dependencies" in said:
        raise DependencyError(f"{subject} cannot be installed together: {said[-_TAIL_CHARACTERS:]}", remedy="Take others.")
    if "No matching distribution" in said or "from versions:" in said:
        raise NotFoundError(
            f"there is no wheel of {subject} to fetch.",
            remedy="Check name and version; a package that is published as source only can be named as a wheel's path.",
        )
    if "THESE PACKAGES DO NOT MATCH THE HASHES" in said:
        raise IntegrityError(f"the bytes of {subject} are others than the index states.", remedy="Try again later.")
    raise UnavailableError(f"pip could not fetch {subject}: {said[-_TAIL_CHARACTERS:]}", remedy="Check pip's settings.")


def _environment(outer: Mapping[str, str]) -> dict[str, str]:
    """The user's own settings of pip (index, proxy, certificates) count; ours do not reach it."""
    return {name: value for name, value in outer.items() if not name.startswith("DAYZERO_")}


def _limit_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_WHEEL_BYTES, MAX_WHEEL_BYTES))
