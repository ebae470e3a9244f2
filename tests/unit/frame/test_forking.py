"""Forked processes: what they leave alone."""

import os
import subprocess
import sys
from pathlib import Path

_PARENT = """
import atexit, os, sys, tempfile
from pathlib import Path
from dayzero import forking

folder = tempfile.TemporaryDirectory(dir=sys.argv[1])
atexit.register(lambda: Path(sys.argv[1], f"left-{os.getpid()}").touch())
pid = forking.fork_into(2, lambda: int(sys.argv[2]), own_group=True)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), Path(folder.name).is_dir(), os.getpid())
"""


def test_what_the_parent_registered_for_its_exit_runs_in_the_parent_alone(tmp_path: Path) -> None:
    # Measuring coverage must make no difference here: it once made the copy take the parent's database server down.
    environment = {**os.environ, "COVERAGE_PROCESS_START": os.environ.get("COVERAGE_PROCESS_START", os.devnull)}
    command = [sys.executable, "-c", _PARENT, str(tmp_path), "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    code, stands, parent = done.stdout.split()
    assert (code, stands) == ("3", "True")
    assert [path.name for path in tmp_path.iterdir()] == [f"left-{parent}"]


def test_an_error_in_the_copy_is_written_to_its_log_and_ends_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PARENT, str(tmp_path), "no number"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[0] == "1"
    assert "ValueError: invalid literal for int() with base 10: 'no number'" in done.stderr
