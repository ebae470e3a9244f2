"""A memory cgroup of its own for one process: its peak, by whichever hierarchy the machine has."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """The group's folder, and the names of its figures."""

    path: Path
    peak: str
    usage: str
    limit: str

    def peak_bytes(self) -> int:
        """The most that the group has held."""
        return int((self.path / self.peak).read_text())

    def hold_to(self, limit_bytes: int) -> bool:
        """Let the group hold no more than that, page cache included; whether the kernel agreed."""
        try:
            (self.path / self.limit).write_text(str(limit_bytes))
        except OSError:
            return False
        return int((self.path / self.limit).read_text()) <= limit_bytes

    def usage_bytes(self) -> int:
        """What the group holds now."""
        return int((self.path / self.usage).read_text())


def _group(name: str) -> MemoryGroup | None:
    """A new group below the root: of the first hierarchy (memory.max_usage_in_bytes) or the second (memory.peak)."""
    for root, peak, usage, limit in (
        (ROOT / "memory", "memory.max_usage_in_bytes", "memory.usage_in_bytes", "memory.limit_in_bytes"),
        (ROOT, "memory.peak", "memory.current", "memory.max"),
    ):
        made = MemoryGroup(root / name, peak, usage, limit)
        try:
            made.path.mkdir()
        except OSError:
            continue
        if (made.path / peak).exists():
            return made
        made.path.rmdir()
    return None


@contextmanager
def own_group() -> Iterator[MemoryGroup | None]:
    """This process in a group of its own, or None where it may not make one; back in the root afterwards."""
    group = _group(f"dayzero-{os.getpid()}")
    if group is None:
        yield None
        return
    (group.path / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield group
    finally:
        (group.path.parent / "cgroup.procs").write_text(str(os.getpid()))
        group.path.rmdir()
