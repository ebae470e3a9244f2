"""Runs every operator of a device in a process of its own, and goes on after whatever one of them does to it."""

import os
import resource
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from dayzero import codec
from dayzero.adapters.operators.library import child_environment
from dayzero.domain.platforms import Device
from dayzero.domain.probing import OperatorProbe, ProbeOutcome
from dayzero.errors import DependencyError, MeasurementError

START_TIMEOUT_S = 300.0
"""Importing torch and opening the device."""

OPERATOR_TIMEOUT_S = 30.0
MEMORY_BYTES = 8 * 2**30
"""Private memory of the probing process on the CPU: an operator that asks for more is refused it, and raises."""

_ENDING_S = 30.0
_READ_BYTES = 1 << 16
_CHILD = "dayzero.adapters.operators.probe_child"

Progress = Callable[[int, int], None]
"""Called with (operators done, operators in all)."""


@dataclass(slots=True)
class _State:
    """What is known so far, and which operators are still to come."""

    waiting: list[str]
    found: list[OperatorProbe] = field(default_factory=list)
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class _Terms:
    """How a process probes; `ends_s` on the monotonic clock."""

    python: str
    device: str
    dtypes: tuple[str, ...]
    plugged: Device | None
    ends_s: float | None
    operator_timeout_s: float
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class OperatorProbes:
    """All that was found, the operators that the time given did not reach, and how often the process had to be started anew."""

    found: tuple[OperatorProbe, ...]
    skipped: tuple[str, ...]
    restarts: int


def probe_operators(
    names: Sequence[str],
    *,
    device: str,
    dtypes: Sequence[str],
    python: str = sys.executable,
    budget_s: float | None = None,
    operator_timeout_s: float = OPERATOR_TIMEOUT_S,
    memory_bytes: int | None = None,
    plugged: Device | None = None,
    progress: Progress = lambda done, total: None,
) -> OperatorProbes:
    """Run the operators, each in every dtype. One that ends its process, or takes longer than its time, is an error of its own.

    DependencyError: the process cannot be started. MeasurementError: it ends before it probes anything (no such device here).
    """
    ends_s = None if budget_s is None else time.monotonic() + budget_s
    terms = _Terms(python, device, tuple(dtypes), plugged, ends_s, operator_timeout_s, memory_bytes)
    state = _State(list(names))
    with tempfile.TemporaryDirectory(prefix="dayzero-probe-") as folder:
        while state.waiting and (ends_s is None or time.monotonic() < ends_s):
            why = _run_child(state, Path(folder), terms, lambda: progress(len(names) - len(state.waiting), len(names)))
            if why is None:
                break
            if why.startswith(_NEVER_BEGAN):
                raise MeasurementError(
                    f"probing on {device} cannot begin: {why.removeprefix(_NEVER_BEGAN)}.",
                    remedy="Run it on a host that has the device and its torch.",
                )
            blamed = state.waiting.pop(0)
            state.found += [OperatorProbe(blamed, dtype, ProbeOutcome.KILLED, why) for dtype in dtypes]
            state.restarts += 1
    return OperatorProbes(tuple(state.found), tuple(state.waiting), state.restarts)


def _run_child(state: _State, folder: Path, terms: _Terms, done: Callable[[], None]) -> str | None:
    """One process on what is waiting; None when it came to the end (of the list, or of the time), else what ended it."""
    listed, log = folder / "names", folder / "stderr"
    listed.write_text("\n".join(state.waiting), encoding="utf-8")
    reads, writes = os.pipe()
    command = [terms.python, "-P", "-m", _CHILD, str(writes), terms.device, ",".join(terms.dtypes), str(listed)]
    if terms.plugged is not None:
        (folder / "device.json").write_bytes(codec.dump(terms.plugged))
        command.append(str(folder / "device.json"))
    with log.open("wb") as errors:
        try:
            process = subprocess.Popen(
                command, env=child_environment(str(folder)), cwd=folder, pass_fds=(writes,), stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True,
                preexec_fn=partial(_limit, terms.memory_bytes),
            )  # fmt: skip
        except OSError as error:
            os.close(reads)
            raise DependencyError(f"cannot start {terms.python}: {error}.") from error
        finally:
            os.close(writes)
    why = None
    try:
        why = _listen(reads, state, terms, done)
    finally:
        os.close(reads)
        _end(process, by_itself=why in (_CLOSED, _CLOSED_EARLY))
    if why == _CLOSED_EARLY:
        return _NEVER_BEGAN + _how_it_ended(process.returncode, log)
    if why == _CLOSED:
        return None if not state.waiting else _how_it_ended(process.returncode, log)
    return why


_CLOSED, _CLOSED_EARLY = "closed", "closed before it began"
_NEVER_BEGAN = "it never began: "


def _listen(reads: int, state: _State, terms: _Terms, done: Callable[[], None]) -> str | None:
    """Take answers until the process closes its end (`_CLOSED`), is silent too long (why), or the time is up (None)."""
    ends_s, pending, ready = terms.ends_s, b"", False
    with selectors.DefaultSelector() as selector:
        selector.register(reads, selectors.EVENT_READ)
        while True:
            patience_s = terms.operator_timeout_s if ready else START_TIMEOUT_S
            left_s = patience_s if ends_s is None else min(patience_s, ends_s - time.monotonic())
            if left_s <= 0:
                return None
            if not selector.select(left_s):
                if ends_s is not None and time.monotonic() >= ends_s:
                    return None
                return (
                    f"it took longer than {patience_s:g} s" if ready else f"{_NEVER_BEGAN}it took longer than {patience_s:g} s"
                )
            data = os.read(reads, _READ_BYTES)
            if not data:
                return _CLOSED if ready else _CLOSED_EARLY
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                if not ready:
                    ready = True
                elif state.waiting:
                    state.found += codec.load(tuple[OperatorProbe, ...], line)
                    state.waiting.pop(0)
                    done()


def _end(process: subprocess.Popen[bytes], *, by_itself: bool) -> None:
    """End the process and all that it started; nothing of it is left behind. One that is ending tells its status."""
    try:
        process.wait(timeout=_ENDING_S if by_itself else 0.0)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _how_it_ended(status: int, log: Path) -> str:
    tail = log.read_bytes()[-2000:].decode("utf-8", "replace").strip().splitlines()
    said = f": {tail[-1][:160]}" if tail else ""
    if status < 0:
        return f"the process died of {signal.Signals(-status).name}{said}"
    return f"the process ended with status {status}{said}"


def _limit(memory_bytes: int | None) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_bytes is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
