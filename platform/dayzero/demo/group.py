"""The demo's own `dayzero up`, on embedded defaults, and the addresses it listens on."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from dayzero.errors import DependencyError

UP_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Group:
    """A running group: where its HTTP door, its Prefect UI and its log are."""

    door_url: str
    prefect_url: str
    log: Path
    environment: Mapping[str, str]


def free_port(wanted: int) -> int:
    """The wanted loopback port if nobody has it, else one that is free now."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise DependencyError("no free port on the loopback address.", remedy="Stop something that listens there.")


@contextmanager
def running_group(data_dir: Path, extra: Mapping[str, str]) -> Iterator[Group]:
    """`dayzero up` as a child with these DAYZERO_ variables; stopped in order when the context ends."""
    door, prefect = free_port(8711), free_port(4200)
    own = {
        "DAYZERO_DATA_DIR": str(data_dir),
        "DAYZERO_PORT": str(door),
        "DAYZERO_PREFECT_PORT": str(prefect),
        **extra,
    }
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("DAYZERO_", "PREFECT_"))}
    data_dir.mkdir(parents=True, exist_ok=True)
    log = data_dir / "up.log"
    with log.open("ab") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "dayzero.cli.main", "up"],
            env=inherited | own,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    group = Group(f"http://127.0.0.1:{door}", f"http://127.0.0.1:{prefect}", log, own)
    try:
        _wait_until_up(child, group)
        yield group
    finally:
        _stop(child)


def _wait_until_up(child: subprocess.Popen[bytes], group: Group) -> None:
    deadline = time.monotonic() + UP_TIMEOUT_S
    while time.monotonic() < deadline:
        if child.poll() is not None:
            raise DependencyError(f"`dayzero up` ended with code {child.returncode}: {_last_line(group.log)}")
        try:
            if httpx.get(f"{group.door_url}/healthz", timeout=2).status_code == httpx.codes.OK:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.3)
    raise DependencyError(f"`dayzero up` did not come up in {UP_TIMEOUT_S:.0f} s: {_last_line(group.log)}")


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
    return lines[-1] if lines else "it said nothing"


def _stop(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is not None:
        return
    child.send_signal(signal.SIGINT)
    try:
        child.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
