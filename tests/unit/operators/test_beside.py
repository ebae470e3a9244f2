"""Work beside the trace: its result comes back, a fork that dies is told of, one that nobody waits for is ended."""

import os
import time
from pathlib import Path

import pytest

from dayzero.adapters.trace.beside import beside


def test_result_of_a_fork_comes_back() -> None:
    here = os.getpid()
    with beside(lambda: (os.getpid(), ("a", 1))) as waiting:
        there, kept = waiting()
    assert there != here
    assert kept == ("a", 1)


def test_a_fork_that_dies_is_told_of() -> None:
    with beside(lambda: os._exit(7)) as waiting, pytest.raises(RuntimeError, match="ended with 7"):
        waiting()


def test_a_fork_that_nobody_waits_for_is_ended(tmp_path: Path) -> None:
    told = tmp_path / "pid"

    def work() -> None:
        told.write_text(str(os.getpid()))
        time.sleep(60)

    with pytest.raises(ValueError, match="the other failed"), beside(work):
        while not (told.is_file() and told.read_text()):
            time.sleep(0.01)
        raise ValueError("the other failed")
    assert not Path(f"/proc/{told.read_text()}").exists()
