"""`dayzero up`: comes up as a whole, goes down as a whole, and nothing stands in the way of the next one."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from dayzero.adapters.prefect.ensure import is_complete
from dayzero.adapters.processes.ports import free_port

pytestmark = [pytest.mark.prefect, pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dayzero-up-", ignore_cleanup_errors=True) as name:
        yield Path(name).resolve()


@pytest.fixture
def variables(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DAYZERO_", "PREFECT_"))}
    ports = {"DAYZERO_PORT": str(free_port("127.0.0.1")), "DAYZERO_PREFECT_PORT": str(free_port("127.0.0.1"))}
    return {**kept, **ports, "DAYZERO_DATA_DIR": str(folder / "data"), "DAYZERO_PLATFORMS": "[]"}


def begin(folder: Path, variables: dict[str, str]) -> subprocess.Popen[bytes]:
    with (folder / "out.txt").open("ab") as output:
        command = [sys.executable, "-m", "dayzero.cli.main", "up"]
        return subprocess.Popen(command, env=variables, cwd=folder, stdout=output, stderr=output, start_new_session=True)


def addresses(folder: Path, process: subprocess.Popen[bytes]) -> dict[str, str]:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        assert process.poll() is None, (folder / "out.txt").read_text()
        try:
            return dict(json.loads((folder / "data" / "up.json").read_text()))
        except FileNotFoundError:
            time.sleep(0.2)
    raise AssertionError((folder / "out.txt").read_text())


def ours(folder: Path) -> list[psutil.Process]:
    """Every process of that data folder, Postgres too."""
    found = []
    for process in psutil.process_iter():
        try:
            told = process.environ().get("DAYZERO_DATA_DIR", "") + " ".join(process.cmdline())
            if str(folder) in told and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def wait_until_gone(folder: Path, *, but: str = "nothing") -> None:
    deadline = time.monotonic() + 30
    while left := [process for process in ours(folder) if process.name() != but]:
        assert time.monotonic() < deadline, left
        time.sleep(0.2)


def test_up_comes_and_goes_as_a_whole_even_when_killed(folder: Path, variables: dict[str, str]) -> None:
    first = begin(folder, variables)
    there = addresses(folder, first)
    assert httpx.get(there["door"] + "/healthz").json() == {"status": "ok"}
    assert is_complete(there["prefect_api"], ())

    again = subprocess.run(
        [sys.executable, "-m", "dayzero.cli.main", "up"], env=variables, cwd=folder, capture_output=True, text=True, check=False
    )
    assert again.returncode == 2
    assert "already runs on the data folder" in again.stderr + again.stdout

    first.kill()
    first.wait()
    wait_until_gone(folder, but="postgres")

    (folder / "data" / "up.json").unlink()
    second = begin(folder, variables)
    there = addresses(folder, second)
    assert is_complete(there["prefect_api"], ())
    second.send_signal(signal.SIGINT)
    assert second.wait(90) == 0
    wait_until_gone(folder)


def test_a_taken_port_is_one_sentence(folder: Path, variables: dict[str, str]) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(variables["DAYZERO_PREFECT_PORT"])))
        taken.listen()
        done = subprocess.run(
            [sys.executable, "-m", "dayzero.cli.main", "up"],
            env=variables,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 4
    said = " ".join((done.stderr + done.stdout).split())
    assert f"port {variables['DAYZERO_PREFECT_PORT']} on 127.0.0.1" in said
    assert "DAYZERO_PREFECT_PORT" in said
    wait_until_gone(folder)
