"""The nursery: a process that imports once what observations need, then forks a child for each request.

    python -m dayzero.adapters.runners.nursery PARENT_PID

Standard input is a Unix socket of whole messages. A message is a JSON object {folder, network: open|closed} and carries one
descriptor: a pipe for what happens to the child, one line each: `pid N`, then `exit CODE` (negative: signal). The child has a
process group, home and log of its own; what it leaves running is ended with it. The nursery ends with its parent, when the
socket ends, and takes its children along. It starts no thread: only so may it fork.
"""

import json
import os
import select
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from dayzero.adapters.runners import child
from dayzero.forking import fork_into, leave

POLL_S, IDLE_S = 0.02, 1.0
MESSAGE_BYTES = 1 << 16


COMMON = (
    "dayzero.adapters.runners.observe_generation", "dayzero.adapters.runners.observe_layers",
    "dayzero.adapters.runners.observe_operators", "dayzero.adapters.runners.observe_parallel",
    "dayzero.adapters.runners.observe_perplexity", "transformers.modeling_utils", "transformers.modeling_layers",
    "transformers.masking_utils", "transformers.modeling_rope_utils", "transformers.generation",
    "transformers.models.auto.modeling_auto", "transformers.models.auto.tokenization_auto",
    "transformers.tokenization_utils_tokenizers", "transformers.integrations", "torch._dynamo", "torch._inductor.compile_fx",
)  # fmt: skip
"""Modules that every observation needs; a library without one of them (they move) costs its children the import."""


def preload() -> None:
    """Import what is common; what is missing is left to the child, whose refusal then says so."""
    for name in COMMON:
        with suppress(ImportError):
            import_module(name)


def child_environment(folder: Path) -> Mapping[str, str]:
    """The variables that differ from child to child: its own places for files."""
    home = str(folder / "home")
    return {"HOME": home, "TMPDIR": home, "HF_HOME": home}


class Nursery:
    """The children that run now, by process id, each with the pipe that hears of it."""

    def __init__(self, door: socket.socket, parent_pid: int) -> None:
        self.door, self.parent_pid = door, parent_pid
        self.children: dict[int, int] = {}

    def serve(self) -> None:
        """Fork a child for each message until the socket or the parent ends; then end all children."""
        while os.getppid() == self.parent_pid:
            ready, _, _ = select.select([self.door], [], [], POLL_S if self.children else IDLE_S)
            if ready and not self._answer():
                break
            for pid in list(self.children):
                self._reap(pid)
        for pid in self.children:
            _end_group(pid)

    def _answer(self) -> bool:
        """Start what one message asks for; False when the socket has ended."""
        message, received, _, _ = socket.recv_fds(self.door, MESSAGE_BYTES, 1)
        if not message:
            return False
        (pipe,) = received
        try:
            asked = json.loads(message)
            pid = self._fork(Path(asked["folder"]), asked["network"], pipe)
        except OSError as error:
            _tell(pipe, f"failed {error.strerror}")
            os.close(pipe)
            return True
        self.children[pid] = pipe
        _tell(pipe, f"pid {pid}")
        return True

    def _fork(self, folder: Path, network: str, pipe: int) -> int:
        nursery_pid = os.getpid()

        def body() -> int:
            self.door.close()
            for other in (pipe, *self.children.values()):
                os.close(other)
            os.chdir(folder)
            os.environ.update(child_environment(folder))
            tempfile.tempdir = None
            return child.main(["request.json", "document.json", str(nursery_pid), network])

        log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            return fork_into(log, body, own_group=True)
        finally:
            os.close(log)

    def _reap(self, pid: int) -> None:
        # The group is ended while its leader is still a zombie, so that the number cannot be somebody else's by now.
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return
        _end_group(pid)
        _, status = os.waitpid(pid, 0)
        pipe = self.children.pop(pid)
        _tell(pipe, f"exit {os.waitstatus_to_exitcode(status)}")
        os.close(pipe)


def _tell(pipe: int, line: str) -> None:
    with suppress(BrokenPipeError):
        os.write(pipe, f"{line}\n".encode())


def _end_group(group_id: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group_id, signal.SIGKILL)


def main(arguments: list[str]) -> None:
    """Serve the socket that is standard input."""
    with socket.socket(fileno=os.dup(0)) as door:
        preload()
        Nursery(door, int(arguments[0])).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
    leave(0)
