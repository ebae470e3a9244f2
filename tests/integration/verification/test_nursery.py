"""Runs share one process that has imported; each still has a process of its own, and no end of one hurts another."""

import gc
import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from test_isolated_runner import FAST, REQUEST, _alive, runner_of, stand_in

from dayzero.adapters.runners.isolated import SubprocessRunner
from dayzero.domain.runs import Observation, RunEnd, RunLimits, RunRequest

WHO = """
import json, os
json.dump({'pid': os.getpid(), 'nursery': os.getppid(), 'group': os.getpgid(0)}, open('document.json', 'w'))
"""
PLACES = """
import json, os, pathlib, tempfile
said = {'environ': pathlib.Path('/proc/self/environ').read_text(), 'home': os.environ['HOME'], 'temp': tempfile.gettempdir(),
        'cwd': os.getcwd(), 'open': [link.resolve().name for link in pathlib.Path("/proc/self/fd").iterdir()]}
json.dump(said, open('document.json', 'w'))
"""
ONCE = "import os, time\nif not os.path.exists({marker!r}):\n    open({marker!r}, 'w').close()\n    {deed}\n"


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 30
    while _alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not _alive(pid)


def test_two_runs_share_one_nursery_and_differ_in_process(tmp_path: Path) -> None:
    with runner_of(tmp_path, WHO) as runner:
        first, second = (json.loads(runner.run(REQUEST, FAST).document) for _ in range(2))
    assert first["nursery"] == second["nursery"]
    assert first["pid"] != second["pid"]
    assert first["group"] == first["pid"]
    assert gone(first["nursery"])
    assert not list((tmp_path / "work").iterdir())


def test_a_child_has_its_own_places_and_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAYZERO_DATABASE_URL", "hush-7f3a")
    with runner_of(tmp_path, PLACES) as runner:
        first, second = (json.loads(runner.run(REQUEST, FAST).document) for _ in range(2))
    assert "HF_HUB_OFFLINE=1" in first["environ"]
    assert "hush-7f3a" not in first["environ"]
    assert first["home"] == first["temp"] == f"{first['cwd']}/home"
    assert first["home"] != second["home"]
    assert not [name for name in first["open"] if name.startswith(("socket:", "pipe:"))]


@pytest.mark.parametrize(
    ("deed", "end"),
    [("os.kill(os.getpid(), 11)", RunEnd.CRASHED), ("os._exit(7)", RunEnd.CRASHED), ("time.sleep(600)", RunEnd.TIMED_OUT),
     ("raise SystemExit(9)", RunEnd.CRASHED), ("os.kill(os.getppid(), 9) or time.sleep(600)", RunEnd.CRASHED)],
)  # fmt: skip
def test_a_bad_end_leaves_the_next_run_working(tmp_path: Path, deed: str, end: RunEnd) -> None:
    code = ONCE.format(marker=str(tmp_path / "once"), deed=deed) + WHO
    with runner_of(tmp_path, code) as runner:
        assert runner.run(REQUEST, RunLimits(timeout_s=4, network=True)).end is end
        assert runner.run(REQUEST, FAST).end is RunEnd.COMPLETED


def test_the_end_of_the_nursery_is_said(tmp_path: Path) -> None:
    with runner_of(tmp_path, "import os, time\nos.kill(os.getppid(), 9)\ntime.sleep(600)") as runner:
        outcome = runner.run(REQUEST, FAST)
    assert outcome.end is RunEnd.CRASHED
    assert "starts children ended by SIGKILL" in outcome.reason


def test_an_interpreter_that_cannot_start_says_why(tmp_path: Path) -> None:
    path = tmp_path / "python"
    path.write_text("#!/bin/sh\necho 'no such module: dayzero' >&2\nexit 1\n")
    path.chmod(0o755)
    outcome = SubprocessRunner(tmp_path / "work", python=str(path)).run(REQUEST, FAST)
    assert outcome.end is RunEnd.CRASHED
    assert "with code 1: no such module: dayzero" in outcome.reason


def test_runs_may_overlap(tmp_path: Path) -> None:
    code = f"import os, time\nfolder = {str(tmp_path)!r}\nopen(f'{{folder}}/here-{{os.getpid()}}', 'w').close()\n"
    code += "while len([name for name in os.listdir(folder) if name.startswith('here-')]) < 2:\n    time.sleep(0.02)\n" + WHO
    ends: list[RunEnd] = []
    with runner_of(tmp_path, code) as runner:
        threads = [threading.Thread(target=lambda: ends.append(runner.run(REQUEST, FAST).end)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert ends == [RunEnd.COMPLETED] * 2


def test_what_a_child_leaves_running_is_ended(tmp_path: Path) -> None:
    code = "import json, subprocess, sys\nleft = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    code += "json.dump(left.pid, open('document.json', 'w'))"
    with runner_of(tmp_path, code) as runner:
        outcome = runner.run(REQUEST, FAST)
        assert gone(int(outcome.document))


def test_a_runner_that_nobody_holds_ends_its_nursery(tmp_path: Path) -> None:
    runner = SubprocessRunner(tmp_path / "work", python=stand_in(tmp_path, WHO))
    nursery = json.loads(runner.run(REQUEST, FAST).document)["nursery"]
    assert _alive(nursery)
    del runner
    gc.collect()
    assert gone(nursery)


def test_killing_the_runner_leaves_no_process(tmp_path: Path) -> None:
    told = tmp_path / "told"
    code = "import json, os, subprocess, sys, time\n"
    code += "left = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    code += f"open({str(told)!r} + '.part', 'w').write(f'{{os.getppid()}} {{os.getpid()}} {{left.pid}}')\n"
    code += f"os.rename({str(told)!r} + '.part', {str(told)!r})\ntime.sleep(600)"
    program = "from test_isolated_runner import REQUEST, FAST, SubprocessRunner, Path\n"
    program += f"SubprocessRunner(Path({str(tmp_path / 'work')!r}), python={stand_in(tmp_path, code)!r}).run(REQUEST, FAST)"
    owner = subprocess.Popen([sys.executable, "-c", program], cwd=Path(__file__).parent)
    try:
        deadline = time.monotonic() + 60
        while not told.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        processes = [int(word) for word in told.read_text().split()]
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    assert len(processes) == 3
    assert all(gone(pid) for pid in processes)


def test_without_torch_the_reason_names_it(tmp_path: Path) -> None:
    # A module of that name that cannot be imported stands before the real one.
    path = tmp_path / "python"
    path.write_text(
        f"#!{sys.executable}\nimport sys\nsys.modules['torch'] = None\n"
        "from dayzero.adapters.runners import nursery\nnursery.main(sys.argv[3:])\n"
    )
    path.chmod(0o755)
    runner = SubprocessRunner(tmp_path / "work", python=str(path))
    outcome = runner.run(RunRequest(Observation.LAYERS, "cpu", model_dir="/nonexistent"), FAST)
    runner.close()
    assert outcome.end is RunEnd.CRASHED
    assert outcome.reason.startswith("ModuleNotFoundError:")
    assert "torch" in outcome.reason


@pytest.mark.torch
def test_the_nursery_imports_all_and_starts_no_thread(tmp_path: Path) -> None:
    code = "import json, os, sys\nfrom dayzero.adapters.runners import nursery\n"
    code += "json.dump({'threads': len(os.listdir(f'/proc/{os.getppid()}/task')), 'missing': [name for name in nursery.COMMON "
    code += "if name not in sys.modules]}, open('document.json', 'w'))"
    program = stand_in(tmp_path, code)
    path = Path(program)
    path.write_text(path.read_text().replace("child.main, nursery.preload = observe, lambda: None", "child.main = observe"))
    runner = SubprocessRunner(tmp_path / "work", python=program)
    outcome = runner.run(REQUEST, FAST)
    runner.close()
    assert json.loads(outcome.document) == {"threads": 1, "missing": []}
