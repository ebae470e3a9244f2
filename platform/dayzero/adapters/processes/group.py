"""A foreground group of processes: started in order, restarted when they die, stopped in the opposite order."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from dayzero.adapters.processes.guard import kill_descendants
from dayzero.errors import DependencyError

LOOK_EVERY_S = 0.2
FIRST_BACKOFF_S = 1.0
LONGEST_BACKOFF_S = 30.0
HEALTHY_AFTER_S = 60.0
STOP_GRACE_S = 15.0
LOG_LIMIT_BYTES = 32 * 2**20
LOG_TAIL_BYTES = 4000

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """A process of the group: a module with its arguments, its whole environment, and how to tell that it is ready.

    `ready` is asked until it says True, at most `ready_s` seconds; None: ready once started.
    """

    name: str
    module: str
    args: tuple[str, ...]
    environment: Mapping[str, str]
    ready: Callable[[], bool] | None = None
    ready_s: float = 120.0


class Child:
    """One process of the group and its history."""

    def __init__(self, spec: ChildSpec, log_dir: Path) -> None:
        self.spec = spec
        self.log = log_dir / f"{spec.name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.failures = 0
        self.started_s = 0.0
        self.restart_at_s: float | None = None

    def start(self) -> None:
        """Start the process; its output goes to its log file."""
        if self.log.exists() and self.log.stat().st_size > LOG_LIMIT_BYTES:
            self.log.replace(self.log.with_suffix(".old.log"))
        # -P: the working directory is no place to import from (a docker/ there would pass for the SDK).
        command = [sys.executable, "-P", "-m", "dayzero.adapters.processes.guard", self.spec.module, *self.spec.args]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                env=dict(self.spec.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.started_s = time.monotonic()
        self.restart_at_s = None

    def log_tail(self) -> str:
        """The end of its log."""
        try:
            return self.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace").strip()
        except OSError:
            return ""

    def stop(self, grace_s: float) -> None:
        """SIGTERM, then SIGKILL with all its descendants after the grace."""
        process = self.process
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            kill_descendants(process.pid)
            process.kill()
            process.wait()


class Group:
    """Runs children until it is told to stop; `noted` is called with name → pid whenever that changes."""

    def __init__(self, log_dir: Path, say: Say, noted: Callable[[Mapping[str, int]], None]) -> None:
        log_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._log_dir = log_dir
        self._say = say
        self._noted = noted
        self._children: list[Child] = []
        self._stopping = False

    @property
    def stopping(self) -> bool:
        """Whether somebody asked it to stop."""
        return self._stopping

    def stop_on_signals(self) -> None:
        """Ctrl-C, SIGTERM and a closed terminal stop the group."""

        def ask(_signal: int, _frame: FrameType | None) -> None:
            self._stopping = True

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, ask)

    def start(self, spec: ChildSpec) -> None:
        """Start a child and wait until it is ready; DependencyError with the end of its log when it is not."""
        child = Child(spec, self._log_dir)
        self._children.append(child)
        child.start()
        self._note()
        deadline_s = time.monotonic() + spec.ready_s
        while spec.ready is not None and not self._stopping:
            if spec.ready():
                return
            assert child.process is not None
            if child.process.poll() is not None:
                raise DependencyError(f"{spec.name} ended before it was ready (its log: {child.log}):\n{child.log_tail()}")
            if time.monotonic() > deadline_s:
                raise DependencyError(f"{spec.name} was not ready after {spec.ready_s:.0f} s.", remedy=f"See {child.log}.")
            time.sleep(LOOK_EVERY_S)

    def watch(self, every_round: Callable[[], None]) -> None:
        """Keep the children running until told to stop; `every_round` is called between looks."""
        while not self._stopping:
            for child in self._children:
                self._look_after(child)
            every_round()
            time.sleep(LOOK_EVERY_S)

    def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """Stop all children, the last started first; each has `grace_s` seconds to obey."""
        self._stopping = True
        for child in reversed(self._children):
            child.stop(grace_s)
        self._children.clear()
        self._note()

    def _look_after(self, child: Child) -> None:
        now_s = time.monotonic()
        if child.restart_at_s is not None:
            if now_s >= child.restart_at_s:
                child.start()
                self._note()
                self._say(f"{child.spec.name} runs again")
            return
        assert child.process is not None
        code = child.process.poll()
        if code is None:
            return
        child.failures = 0 if now_s - child.started_s > HEALTHY_AFTER_S else child.failures + 1
        wait_s = min(FIRST_BACKOFF_S * 2 ** max(child.failures - 1, 0), LONGEST_BACKOFF_S)
        child.restart_at_s = now_s + wait_s
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        self._say(f"{child.spec.name} {how}; it starts again in {wait_s:.0f} s (its log: {child.log})")

    def _note(self) -> None:
        alive = {child.spec.name: child.process.pid for child in self._children if child.process is not None}
        self._noted(alive)
