"""Run a module as a program that does not outlive its parent: python -m dayzero.adapters.processes.guard MODULE ARGS…

A thread looks at the parent's process id, which changes when the parent dies, even by SIGKILL; then everything that this
process started is killed, and itself. (PR_SET_PDEATHSIG would fire when the *thread* that started us ends.)
"""

import os
import runpy
import signal
import sys
import threading
import time

LOOK_EVERY_S = 0.25


def die_with_parent() -> None:
    """Watch the parent of this process from a thread; when it is gone, end this process and its descendants."""
    parent = os.getppid()
    threading.Thread(target=_watch, args=(parent,), name="parent-guard", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_EVERY_S)
    kill_descendants(os.getpid())
    os.kill(os.getpid(), signal.SIGKILL)


def kill_descendants(pid: int) -> None:
    """SIGKILL every process that descends from `pid`, the parents first, so that none starts another."""
    import psutil

    try:
        children = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return
    for child in children:
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue


def main() -> None:
    """Take MODULE and ARGS from the command line and become that program."""
    if len(sys.argv) < 2:
        sys.exit("guard needs the module to run")
    die_with_parent()
    module = sys.argv[1]
    sys.argv = sys.argv[1:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
