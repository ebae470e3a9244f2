"""Forked processes: a copy of this one, with everything imported, in a process group of its own. Standard library only.

Fork only where no thread of ours runs: torch starts its threads at the first large operation, and a fork would lose them.
"""

import os
import sys
import traceback
from collections.abc import Callable


def leave(code: int) -> None:
    """End this process at once: neither the code that was forked nor what it registered for its exit runs here, since the
    temporary folders and servers that such functions take down are the parent's."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def fork_into(log_fd: int, body: Callable[[], int], own_group: bool) -> int:
    """Fork; the copy runs `body` with its output in `log_fd` and nothing to read, and ends with the code it returns.

    Returns the copy's process id. An exception that escapes `body` is written to the log and ends the copy with 1.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        if own_group:
            # Both sides do it: whoever comes first, the group is there when fork_into returns and when the body begins.
            _lead_group(pid)
        return pid
    code = 1
    try:
        if own_group:
            _lead_group(0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (log_fd, 1), (log_fd, 2)):
            os.dup2(source, target)
        os.close(nothing)
        code = body()
    except BaseException:  # noqa: BLE001 - nothing may unwind into the frames that the copy inherited
        traceback.print_exc()
    finally:
        leave(code)
    return 0


def _lead_group(pid: int) -> None:
    try:
        os.setpgid(pid, pid)
    except (PermissionError, ProcessLookupError):
        return
