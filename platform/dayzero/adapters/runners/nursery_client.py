"""The runner's side of the nursery: starts it, hands it requests, hears what becomes of the children."""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

CLOSE_TIMEOUT_S = 10.0
LOG_TAIL_BYTES = 600
HF_HOME = "/proc/self/cwd/home"
"""The hub's client reads this once, when it is imported; so written, it is each child's own folder."""


class ChildReport:
    """What the nursery says about one child: `pid` once it is forked, `code` once it has ended, `failure` otherwise."""

    def __init__(self, pipe: int, nursery: "NurseryClient") -> None:
        self.pid: int | None = None
        self.code: int | None = None
        self.failure: str | None = None
        self._pipe, self._nursery, self._heard = pipe, nursery, b""

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return self.code is not None or self.failure is not None

    def listen(self, timeout_s: float) -> None:
        """Wait for news, at most so long."""
        ready, _, _ = select.select([self._pipe], [], [], timeout_s)
        if not ready:
            return
        heard = os.read(self._pipe, 4096)
        if not heard:
            self.failure = self.failure or f"the process that starts children ended{self._nursery.last_words()}"
        *lines, self._heard = (self._heard + heard).split(b"\n")
        for line in lines:
            word, _, rest = line.decode(errors="replace").partition(" ")
            if word == "pid":
                self.pid = int(rest)
            elif word == "exit":
                self.code = int(rest)
            else:
                self.failure = f"the child could not be started: {rest}"

    def kill(self) -> None:
        """End the child's whole group; before it is forked, the nursery."""
        if self.pid is None:
            self._nursery.kill()
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Hear no more of it."""
        os.close(self._pipe)


class NurseryClient:
    """One nursery process. `close` ends it; it also ends when this process does."""

    def __init__(self, command: list[str], environment: Mapping[str, str], work_dir: Path) -> None:
        self._owner = os.getpid()
        self._folder = Path(tempfile.mkdtemp(prefix="nursery-", dir=work_dir))
        home = str(self._folder / "home")
        Path(home).mkdir()
        self._door, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, (self._folder / "log.txt").open("wb") as log:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                [*command, str(self._owner)],
                cwd=self._folder,
                env={**environment, "HOME": home, "TMPDIR": home, "HF_HOME": HF_HOME},
                stdin=theirs.fileno(),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def alive(self) -> bool:
        """Whether it can take requests of this process."""
        return self._owner == os.getpid() and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def start(self, folder: Path, network: str) -> ChildReport:
        """Ask for a child in that folder; OSError when the nursery is gone."""
        hears, tells = os.pipe()
        report = ChildReport(hears, self)
        try:
            socket.send_fds(self._door, [json.dumps({"folder": str(folder), "network": network}).encode()], [tells])
        except OSError:
            report.failure = f"the process that starts children ended{self.last_words()}"
        finally:
            os.close(tells)
        return report

    def last_words(self) -> str:
        """How it ended and its last line, where it has ended and said something."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        code = self._process.returncode
        how = "" if code is None else f" by {signal.Signals(-code).name}" if code < 0 else f" with code {code}"
        with suppress(OSError):
            lines = (self._folder / "log.txt").read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace").strip().splitlines()
            return f"{how}: {lines[-1]}" if lines else how
        return how

    def kill(self) -> None:
        """End it at once; its children die with it."""
        self._process.kill()

    def close(self) -> None:
        """End it, its children and its folder. In a forked copy of its owner nothing happens: it is not the copy's."""
        self._door.close()
        if self._owner != os.getpid():
            return
        try:
            self._process.wait(CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


class NurseryKeeper:
    """At most one living nursery, started when it is first needed and again when it has died."""

    def __init__(self, start: Callable[[], NurseryClient]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._current: NurseryClient | None = None

    def nursery(self) -> NurseryClient:
        """The living one."""
        with self._lock:
            if self._current is None or not self._current.alive:
                if self._current is not None:
                    self._current.close()
                self._current = self._start()
            return self._current

    def close(self) -> None:
        """End it, if there is one."""
        with self._lock:
            if self._current is not None:
                self._current.close()
            self._current = None
