"""Work beside the trace: its result comes back, and a fork that dies is told of."""

import os

import pytest

from dayzero.adapters.trace.beside import beside


def test_result_of_a_fork_comes_back() -> None:
    here = os.getpid()
    waiting = beside(lambda: (os.getpid(), ("a", 1)))
    there, kept = waiting()
    assert there != here
    assert kept == ("a", 1)


def test_a_fork_that_dies_is_told_of() -> None:
    with pytest.raises(RuntimeError, match="ended with 7"):
        beside(lambda: os._exit(7))()
