"""Processes live and die together, whatever kills them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from dayzero.adapters.processes.folder import (
    ADDRESSES,
    clear_leftovers,
    only_one,
    running_prefect_api,
    write_addresses,
    write_children,
)
from dayzero.adapters.processes.group import ChildSpec, Group
from dayzero.adapters.processes.loops import Loop, Loops
from dayzero.adapters.processes.ports import require_free
from dayzero.errors import BadInputError, DependencyError, UnavailableError

SLEEPER = "import subprocess, sys, time; print(subprocess.Popen(['sleep', '600']).pid, flush=True); time.sleep(600)"


def until(what: Callable[[], bool], limit_s: float = 30.0) -> None:
    deadline = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def modules(tmp_path: Path) -> dict[str, str]:
    """An environment in which `sleeper` and `quitter` are modules."""
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    (tmp_path / "quitter.py").write_text("import sys; print('no such thing'); sys.exit(3)")
    marker = repr(str(tmp_path / "deaf"))
    ignores = "import pathlib, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    (tmp_path / "stubborn.py").write_text(f"{ignores}; pathlib.Path({marker}).touch(); time.sleep(600)")
    return {**os.environ, "PYTHONPATH": str(tmp_path)}


def test_a_guarded_process_and_its_children_die_with_a_killed_parent(tmp_path: Path, modules: dict[str, str]) -> None:
    program = (
        "import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-m', 'dayzero.adapters.processes.guard',"
        " 'sleeper'], start_new_session=True); print(p.pid, flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=modules)
    with parent:
        assert parent.stdout is not None
        pids = [int(parent.stdout.readline()), int(parent.stdout.readline())]
        parent.kill()
    for pid in pids:
        until(lambda pid=pid: gone(pid))


def test_a_child_that_is_killed_starts_again_and_that_is_told(tmp_path: Path, modules: dict[str, str]) -> None:
    told: list[str] = []
    pids: dict[str, int] = {}
    group = Group(tmp_path / "logs", told.append, pids.update)
    group.start(ChildSpec("sleeper", "sleeper", (), modules))
    first = pids["sleeper"]
    os.kill(first, signal.SIGKILL)

    def enough() -> None:
        if pids["sleeper"] != first:
            group.stop()

    group.watch(enough)
    assert told[0].startswith("sleeper was killed by signal 9; it starts again in 1 s")
    assert told[1] == "sleeper runs again"
    until(lambda: gone(pids["sleeper"]))


def test_a_child_that_ends_before_it_is_ready_shows_its_log(tmp_path: Path, modules: dict[str, str]) -> None:
    group = Group(tmp_path / "logs", print, lambda _pids: None)
    with pytest.raises(DependencyError, match=r"quitter ended before it was ready.*\n.*no such thing"):
        group.start(ChildSpec("quitter", "quitter", (), modules, ready=lambda: False))
    group.stop()


def test_a_child_that_does_not_obey_is_killed(tmp_path: Path, modules: dict[str, str]) -> None:
    pids: dict[str, int] = {}
    group = Group(tmp_path / "logs", print, pids.update)
    group.start(ChildSpec("stubborn", "stubborn", (), modules))
    until((tmp_path / "deaf").exists)
    group.stop(grace_s=0.3)
    assert gone(pids["stubborn"])


def test_a_folder_serves_one(tmp_path: Path) -> None:
    with only_one(tmp_path / "data"), pytest.raises(BadInputError, match="already runs"), only_one(tmp_path / "data"):
        pass
    with only_one(tmp_path / "data"):
        pass


def test_the_prefect_api_of_a_running_group_is_found_and_rubbish_is_none(tmp_path: Path) -> None:
    assert running_prefect_api(tmp_path) is None
    write_addresses(tmp_path, {"prefect_api": "http://127.0.0.1:4200/api", "pid": 7})
    assert running_prefect_api(tmp_path) == "http://127.0.0.1:4200/api"
    for rubbish in ("{", "[]", '{"prefect_api": 7}'):
        (tmp_path / ADDRESSES).write_text(rubbish)
        assert running_prefect_api(tmp_path) is None


def test_leftovers_are_recognised_by_pid_and_start_time(tmp_path: Path) -> None:
    left = subprocess.Popen(["sleep", "600"])
    other = subprocess.Popen(["sleep", "600"])
    write_children(tmp_path, {"left": left.pid, "gone": 2**22 + 1})
    text = (tmp_path / "up.children.json").read_text()
    assert clear_leftovers(tmp_path) == ("left",)
    assert gone(left.pid)
    left.wait()
    (tmp_path / "up.children.json").write_text(
        text.replace(str(left.pid), str(other.pid)).replace('"started_s": ', '"started_s": 9')
    )
    assert clear_leftovers(tmp_path) == ()
    assert other.poll() is None
    other.kill()
    other.wait()
    (tmp_path / "up.children.json").write_text("[not json")
    assert clear_leftovers(tmp_path) == ()


def test_a_taken_port_is_named_with_its_setting() -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(DependencyError, match=rf"port {port} .*DAYZERO_PORT"):
            require_free("127.0.0.1", port, "DAYZERO_PORT")


def test_a_loop_outlives_its_faults(caplog: pytest.LogCaptureFixture) -> None:
    rounds: list[int] = []

    def a_round() -> None:
        rounds.append(1)
        if len(rounds) < 3:
            raise UnavailableError("the hub is down.")
        if len(rounds) == 3:
            raise RuntimeError("a bug")

    loops = Loops([Loop("watch", 0.01, a_round)])
    loops.start()
    until(lambda: len(rounds) > 4)
    loops.stop()
    told = [record.getMessage() for record in caplog.records]
    assert told == ["watch: the hub is down.", "watch failed; it goes on with its next round"]
