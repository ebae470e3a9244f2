"""Whatever a child does comes back as an outcome. The child is a stand-in program; nothing here needs torch."""

import os
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dayzero.adapters.runners.isolated import SubprocessRunner
from dayzero.domain.runs import Observation, RunEnd, RunLimits, RunOutcome, RunRequest

REQUEST = RunRequest(Observation.LAYERS, "cpu", model_dir="/nonexistent")
NURSERY = """#!{python}
import sys
from dayzero.adapters.runners import child, nursery
def observe(arguments):
    exec({code!r}, {{}})
    return 0
child.main, nursery.preload = observe, lambda: None
nursery.main(sys.argv[3:])
"""
FAST = RunLimits(timeout_s=60, network=True)


def stand_in(folder: Path, code: str) -> str:
    """A program in python's place: a nursery that imports nothing more and whose children run the code."""
    path = folder / "python"
    path.write_text(NURSERY.format(python=sys.executable, code=textwrap.dedent(code)))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@contextmanager
def runner_of(folder: Path, code: str) -> Iterator[SubprocessRunner]:
    runner = SubprocessRunner(folder / "work", python=stand_in(folder, code))
    try:
        yield runner
    finally:
        runner.close()


def outcome_of(folder: Path, code: str, limits: RunLimits = FAST) -> RunOutcome:
    with runner_of(folder, code) as runner:
        return runner.run(REQUEST, limits)


def test_a_document_comes_back(tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path, "open('document.json', 'w').write('{}')\nprint('a line of log')")
    assert (outcome.end, outcome.document) == (RunEnd.COMPLETED, b"{}")
    assert "a line of log" in outcome.log_tail
    assert not list((tmp_path / "work").glob("run-*"))


def test_a_crash_names_its_signal(tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
    assert outcome.end is RunEnd.CRASHED
    assert "SIGSEGV" in outcome.reason


def test_success_without_a_document_is_a_crash(tmp_path: Path) -> None:
    assert outcome_of(tmp_path, "pass").end is RunEnd.CRASHED


def test_a_hang_is_stopped_with_all_its_children(tmp_path: Path) -> None:
    code = "import subprocess, sys, time\n"
    code += "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    code += f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\ntime.sleep(600)"
    outcome = outcome_of(tmp_path, code, RunLimits(timeout_s=3, network=True))
    assert outcome.end is RunEnd.TIMED_OUT
    status = Path(f"/proc/{(tmp_path / 'pid').read_text()}/stat")
    assert not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] == "Z"


def test_memory_above_the_limit_ends_the_run(tmp_path: Path) -> None:
    code = "import time\nheld = bytearray(b'x') * (200 << 20)\ntime.sleep(600)"
    outcome = outcome_of(tmp_path, code, RunLimits(timeout_s=60, memory_bytes=100 << 20, network=True))
    assert outcome.end is RunEnd.OUT_OF_MEMORY
    assert outcome.peak_rss_bytes is not None
    assert outcome.peak_rss_bytes > 100 << 20


def test_secrets_stay_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DAYZERO_DATABASE_URL", "PREFECT_API_KEY", "HF_TOKEN", "DAYZERO_WORKER_TOKEN"):
        monkeypatch.setenv(name, "hush-7f3a")
    outcome = outcome_of(tmp_path, "import json, os\njson.dump(dict(os.environ), open('document.json', 'w'))")
    assert b"hush-7f3a" not in outcome.document
    assert b'"HF_HUB_OFFLINE": "1"' in outcome.document


def test_a_refusal_carries_the_childs_own_sentence(tmp_path: Path) -> None:
    runner = SubprocessRunner(tmp_path)
    outcome = runner.run(RunRequest(Observation.STACK, "cpu"), RunLimits(timeout_s=60))
    runner.close()
    assert outcome.end is RunEnd.REFUSED
    assert "does not observe stack" in outcome.reason
    assert "network: " in outcome.log_tail


def test_the_child_dies_with_its_parent(tmp_path: Path) -> None:
    sleeper = "import sys, time\nfrom dayzero import containment\n"
    sleeper += "containment.die_with_parent(int(sys.argv[1]))\nprint('ready', flush=True)\ntime.sleep(600)"
    parent = "import os, subprocess, sys, time\n"
    parent += f"child = subprocess.Popen([sys.executable, '-c', {sleeper!r}, str(os.getpid())])\n"
    parent += "print(child.pid, flush=True)\ntime.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert process.stdout.readline() == "ready\n"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    deadline = time.monotonic() + 30
    while _alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(pid)


def test_without_network_only_loopback_answers(tmp_path: Path) -> None:
    code = "from dayzero import containment\nimport socket\n"
    code += "print(containment.close_network(), [name for _, name in socket.if_nameindex()])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    if not said.startswith("None"):
        pytest.skip(f"no network namespaces here: {said.strip()}")
    assert said.strip() == "None ['lo']"


def test_the_stack_is_told_without_importing_torch(tmp_path: Path) -> None:
    code = "import sys\nfrom pathlib import Path\nfrom dayzero.adapters.runners.isolated import SubprocessRunner\n"
    code += f"stack = SubprocessRunner(Path({str(tmp_path)!r})).stack()\n"
    code += "assert 'torch' not in sys.modules\nprint(sorted(stack.components))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "machine" in said
    assert "python" in said


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (OSError, IndexError):
        return False
