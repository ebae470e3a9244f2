"""Work done in a fork beside this process, on another core: everything imported and built is there already."""

import os
import pickle
from collections.abc import Callable
from typing import Any

from dayzero.containment import die_with_parent
from dayzero.forking import fork_into


def beside(work: Callable[[], Any]) -> Callable[[], Any]:
    """Start the work in a fork and return what waits for its result, which must be of plain classes.

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

    def result() -> Any:
        with os.fdopen(reading, "rb") as source:
            data = source.read()
        _, status = os.waitpid(pid, 0)
        if status:
            raise RuntimeError(f"the process beside the trace ended with {os.waitstatus_to_exitcode(status)}")
        return pickle.loads(data)

    return result
