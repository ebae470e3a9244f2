"""`dayzero hub serve` as a process of its own on one port, which may be killed and started again; it counts what it sent."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

_START_WITHIN_S = 60.0


class HubProcess:
    """The hub. Bytes are what the kernel says that its processes wrote, so that a kill loses none of the count."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self._port = found.getsockname()[1]
        self._folder, self.url = folder, f"http://127.0.0.1:{self._port}"
        self._before = 0
        self.start()

    def start(self) -> None:
        """Start it, again on the same port."""
        command = [sys.executable, "-m", "dayzero.cli.main", "hub", "serve", str(self._folder), "--port", str(self._port)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until_s = time.monotonic() + _START_WITHIN_S
        while time.monotonic() < until_s:
            with socket.socket() as asked:
                if asked.connect_ex(("127.0.0.1", self._port)) == 0:
                    self._silent = written_by(self._process.pid)
                    return
            time.sleep(0.02)
        raise AssertionError("the hub did not start")

    def sent_bytes(self) -> int:
        """Bytes that were sent until now, headers of answers among them, since the first start."""
        return self._before + written_by(self._process.pid) - self._silent

    def kill(self) -> None:
        """SIGKILL."""
        os.kill(self._process.pid, signal.SIGKILL)
        # The kernel keeps what a process has written until it is waited for.
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        self._before = self.sent_bytes()
        self._process.wait()


def written_by(pid: int) -> int:
    """Bytes that the process has handed to write calls, sendfile among them."""
    lines = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(lines["wchar"])
