"""What a child does to itself before anything else: die with its parent, give up the network. Standard library only."""

import ctypes
import fcntl
import os
import signal
import socket
import struct
from pathlib import Path

PR_SET_PDEATHSIG = 1  # linux/prctl.h
CLONE_NEWUSER = 0x10000000  # linux/sched.h
CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1  # linux/sockios.h, linux/if.h


def die_with_parent(parent_pid: int) -> None:
    """Ask the kernel for SIGKILL when the parent ends; die at once when it has ended already."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(137)


def close_network() -> str | None:
    """Move into a network namespace with nothing but loopback; None when done, else why the network is still open."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "unshare"):
        return "this system has no network namespaces"
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWNET) != 0:
        if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
            return f"the kernel refused a network namespace ({os.strerror(ctypes.get_errno())})"
        _map_user(uid, gid)
    try:
        _loopback_up()
    except OSError as error:
        return f"loopback could not be brought up in the namespace ({error.strerror})"
    return None


def _map_user(uid: int, gid: int) -> None:
    own = Path("/proc/self")
    own.joinpath("setgroups").write_text("deny")
    own.joinpath("uid_map").write_text(f"{uid} {uid} 1")
    own.joinpath("gid_map").write_text(f"{gid} {gid} 1")


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(control, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))
