"""The tracer: a configuration goes into a child process, a trace comes out."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from dayzero import codec
from dayzero.adapters.trace.exchange import Refusal, TraceAnswer, TraceJob
from dayzero.adapters.trace.known import known_architecture, library_name
from dayzero.domain.operators import Trace, TraceOptions
from dayzero.errors import BadInputError, BlockedError, DayzeroError, DependencyError, MeasurementError, NotShardedError

_INSTALL = "Install the worker extra: pip install 'dayzero[worker]'"
_LOG_TAIL_CHARACTERS = 2000
_LARGEST_CONFIG_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Library:
    """The modelling library of a tracer: its name and version (None: not installed), whether it knows a type, and the folder
    of packages that hold it (None: the installed ones do)."""

    name: str | None
    knows: Callable[[str], bool | None]
    packages: Path | None = None


class SubprocessTracer:
    """Traces in a child of `python` with a scrubbed environment; repository code never runs."""

    def __init__(self, python: str = sys.executable, *, fold_layers: bool = True, library: Library | None = None) -> None:
        self._python = python
        self._fold_layers = fold_layers
        self._library = library or Library(library_name(), known_architecture)
        self._waiting: _Child | None = None

    def warm(self) -> None:
        """Start the next trace's child, which imports the libraries meanwhile; `end` it, or it ends with this process."""
        if self._waiting is None:
            self._waiting = _Child(self._python, self._library.packages)

    def end(self) -> None:
        """End the child that waits for a job, if there is one."""
        if self._waiting is not None:
            self._waiting.end()
            self._waiting = None

    def trace(self, config: bytes, *, timeout_s: float, options: TraceOptions | None = None) -> Trace:
        """As the port says; BadInputError when the bytes are no configuration with a model type."""
        model_type = _checked(config, self._library)
        job = TraceJob(config.decode("utf-8"), ceil(timeout_s) + 1, self._fold_layers, options or TraceOptions())
        child, self._waiting = self._waiting or _Child(self._python, self._library.packages), None
        answer = child.ask(job, model_type, timeout_s)
        if answer.trace is not None:
            return answer.trace
        raise _as_error(answer, model_type, self._library.name)


class _Child:
    """One child process with its own folder, for one job."""

    def __init__(self, python: str, packages: Path | None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="dayzero-trace-")
        self._home = Path(self._folder.name)
        command = [python, "-P", "-m", "dayzero.adapters.trace.child", str(self._home / "answer.json")]
        with (self._home / "log.txt").open("wb") as sink:
            try:
                self._process = subprocess.Popen(
                    command, env=scrubbed(self._home, packages), cwd=self._home, stdin=subprocess.PIPE, stdout=sink, stderr=sink
                )
            except OSError as error:
                self._folder.cleanup()
                raise DependencyError(f"cannot start {python}: {error}.", remedy=_INSTALL) from error

    def end(self) -> None:
        """Ask nothing of it."""
        with self._folder, self._process as process:
            process.kill()

    def ask(self, job: TraceJob, model_type: str, timeout_s: float) -> TraceAnswer:
        """The child's answer; MeasurementError when it takes longer, or dies."""
        with self._folder, self._process as process:
            try:
                process.communicate(codec.dump(job), timeout=timeout_s)
            except subprocess.TimeoutExpired as error:
                process.kill()
                raise MeasurementError(
                    f"tracing {model_type} took longer than {timeout_s:g} s and was stopped.", remedy="Allow it more time."
                ) from error
            answer = self._home / "answer.json"
            if process.returncode != 0 or not answer.is_file():
                tail = (self._home / "log.txt").read_text(encoding="utf-8", errors="replace")[-_LOG_TAIL_CHARACTERS:]
                raise MeasurementError(
                    f"the tracer's process for {model_type} died with exit status {process.returncode}. Its last lines:\n{tail}"
                )
            return codec.load(TraceAnswer, answer.read_bytes())


def scrubbed(home: Path, packages: Path | None = None) -> Mapping[str, str]:
    """The child's whole environment: no secrets, no hub, no accelerator; `packages` come before the installed ones."""
    import os

    kept = {
        name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "LANG", "COVERAGE_PROCESS_CONFIG") if name in os.environ
    }
    return kept | {
        "HOME": str(home),
        "TMPDIR": str(home),
        "HF_HOME": str(home),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([*([str(packages)] if packages else []), str(Path(__file__).resolve().parents[3])]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _checked(config: bytes, library: Library) -> str:
    """The model type of a configuration that is worth starting a process for."""
    if len(config) > _LARGEST_CONFIG_BYTES:
        raise BadInputError(
            f"the configuration is {len(config)} bytes large.",
            remedy=f"A config.json above {_LARGEST_CONFIG_BYTES} bytes is refused.",
        )
    try:
        document: Any = json.loads(config.decode("utf-8"))
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise BadInputError(
            f"the configuration is not JSON: {error}.", remedy="Check config.json in the repository."
        ) from error
    if not isinstance(document, dict):
        raise BadInputError("the configuration is not a JSON object.", remedy="Check config.json in the repository.")
    model_type = document.get("model_type")
    if not isinstance(model_type, str) or not model_type:
        raise BadInputError("the configuration names no model_type.", remedy="Check config.json in the repository.")
    if library.knows(model_type) is False:
        raise _unknown(model_type, library.name, remote_code="auto_map" in document)
    return model_type


def _unknown(model_type: str, library: str | None, *, remote_code: bool) -> BlockedError:
    where = library or "the modelling library"
    if remote_code:
        return BlockedError(
            f"model type {model_type} is unknown to {where}; the repository brings its own code for it, which is not run.",
            remedy="Add a stack whose transformers release knows the type: dayzero stack add NAME transformers==VERSION "
            "(DAYZERO_ALLOW_REMOTE_CODE does not run the code: this version has no container for it).",
        )
    return BlockedError(
        f"model type {model_type} is unknown to {where}.",
        remedy="Add a stack whose transformers release knows it (dayzero stack add), then try again.",
    )


def _as_error(answer: TraceAnswer, model_type: str, library: str | None) -> DayzeroError:
    if answer.refusal is Refusal.NOT_INSTALLED:
        return DependencyError(f"tracing needs what is not installed: {answer.message}.", remedy=_INSTALL)
    if answer.refusal is Refusal.UNKNOWN:
        return _unknown(model_type, library, remote_code=False)
    if answer.refusal is Refusal.NOT_SHARDED:
        return NotShardedError(f"{model_type} cannot be traced sharded: {answer.message}.", remedy="Ask for another --tp.")
    if answer.refusal is Refusal.BAD_CONFIG:
        return BadInputError(f"{library} cannot build {model_type} from this configuration: {answer.message}.")
    return MeasurementError(f"tracing {model_type} failed: {answer.message}.")
