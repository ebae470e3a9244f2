"""Another machine, as near as one host can come: a network namespace of its own, and an ordinary Unix account in it."""

import os
import pwd
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import dayzero
import dayzero_flows

ACCOUNT = "nobody"
TOOLS = ("ip", "setpriv", "mount")
SEARCHABLE_BY_ALL = 0o001


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A namespace joined to this one by a pair of virtual interfaces: our address, and its own."""

    name: str
    our_address: str
    its_address: str
    scratch: Path

    def command(self, arguments: Sequence[str]) -> list[str]:
        """A command line that runs the arguments there, as the account, without a way back to our privileges.

        `ip netns exec` gives it a mount namespace of its own: where the interpreter lies in a folder that is closed to others
        (a home folder), that folder is replaced there by one that shows nothing else.
        """
        account = pwd.getpwnam(ACCOUNT)
        drop = ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups", "--no-new-privs"]
        script = "\n".join(["set -e", *_openings(self.scratch), f"exec {shlex.join([*drop, *arguments])}"])
        return ["ip", "netns", "exec", self.name, "sh", "-c", script]


@contextmanager
def elsewhere(scratch: Path) -> Iterator[Elsewhere]:
    """A namespace that is gone afterwards; skips where there is no root or no `ip`."""
    if os.geteuid() != 0:
        pytest.skip("making a network namespace needs root")
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed (packages iproute2 and util-linux)")
    tag = os.getpid() % 65536
    network = f"10.{200 + tag % 50}.{tag >> 8}"
    block = (tag & 63) * 4
    made = Elsewhere(f"dayzero-{tag}", f"{network}.{block + 1}", f"{network}.{block + 2}", scratch)
    ours, its = f"dz{tag}a", f"dz{tag}b"
    try:
        _ip("netns", "add", made.name)
        _ip("link", "add", ours, "type", "veth", "peer", "name", its)
        _ip("link", "set", its, "netns", made.name)
        _ip("addr", "add", f"{made.our_address}/30", "dev", ours)
        _ip("link", "set", ours, "up")
        _ip("-n", made.name, "addr", "add", f"{made.its_address}/30", "dev", its)
        _ip("-n", made.name, "link", "set", its, "up")
        _ip("-n", made.name, "link", "set", "lo", "up")
        yield made
    finally:
        subprocess.run(["ip", "link", "del", ours], capture_output=True, check=False)
        subprocess.run(["ip", "netns", "del", made.name], capture_output=True, check=False)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"


def _openings(scratch: Path) -> list[str]:
    """Shell lines that make interpreter and sources reachable for everybody, in this mount namespace alone."""
    needed = {
        Path(sys.prefix),
        Path(sys.base_prefix),
        *(Path(str(module.__file__)).parents[2] for module in (dayzero, dayzero_flows)),
    }
    closed = {path: _closed_above(path) for path in sorted(path.resolve() for path in needed)}
    lines = []
    for number, path in enumerate(path for path, above in closed.items() if above):
        lines += [f"mkdir -p {scratch}/{number}", f"mount --bind {shlex.quote(str(path))} {scratch}/{number}"]
    for above in sorted({above for above in closed.values() if above}):
        lines.append(f"mount -t tmpfs -o mode=755 tmpfs {shlex.quote(str(above))}")
    for number, path in enumerate(path for path, above in closed.items() if above):
        target = shlex.quote(str(path))
        lines += [f"mkdir -p {target}", f"mount --bind {scratch}/{number} {target}"]
    return lines


def _closed_above(path: Path) -> Path | None:
    """The topmost folder above that others may not pass."""
    return next((above for above in reversed(path.parents) if not above.stat().st_mode & SEARCHABLE_BY_ALL), None)
