"""Work done in a fork beside this process, on another core: everything imported and built is there already."""

import os
import pickle
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dayzero.containment import die_with_parent
from dayzero.forking import fork_into


@contextmanager
def beside(work: Callable[[], Any]) -> Iterator[Callable[[], Any]]:
    """Start the work in a fork; gives what waits for its result, which must be of plain classes. Nobody waited: it is ended.

    Only where no thread of ours runs, and for work that raises nothing; RuntimeError when the fork died.
    """
    parent = os.getpid()
    reading, writing = os.pipe()

    def body() -> int:
        os.close(reading)
        die_with_parent(parent)
        with os.fdopen(writing, "wb") as sink:
            pickle.dump(work(), sink)
        return 0

    pid = fork_into(2, body, own_group=False)
    os.close(writing)
    waited = False

    def result() -> Any:
        nonlocal waited
        data = source.read()
        _, status = os.waitpid(pid, 0)
        waited = True
        if status:
            raise RuntimeError(f"the process beside the trace ended with {os.waitstatus_to_exitcode(status)}")
        return pickle.loads(data)

    with os.fdopen(reading, "rb") as source:
        try:
            yield result
        finally:
            if not waited:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
