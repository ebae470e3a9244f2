"""Resident memory of a process group, read from /proc."""

import os
from dataclasses import dataclass
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
GROWTH = 1.02
"""How much the bound must have grown before the dear figure is taken again."""

ASK_ALL_EVERY = 10
"""Looks until processes of other groups are asked again: a new process is seen at once, one that changes groups later."""


def group_members(group_id: int, strangers: frozenset[int] = frozenset()) -> tuple[tuple[int, ...], frozenset[int]]:
    """Process ids whose process group is the given one, and those of all others; `strangers` are not asked again."""
    members, others = [], set()
    with os.scandir("/proc") as entries:
        pids = [int(entry.name) for entry in entries if entry.name.isdigit()]
    for pid in pids:
        if pid in strangers or _group_of(pid) != group_id:
            others.add(pid)
        else:
            members.append(pid)
    return tuple(members), frozenset(others)


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def resident_bytes(pid: int) -> int:
    """A process's resident bytes, shared pages in full; 0 when it is gone. Cheap: one short file."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return 0


def proportional_bytes(pid: int) -> int:
    """A process's proportional bytes (a page shared by n processes counts 1/n); plain resident bytes where the kernel does
    not tell; 0 when the process is gone. Dear: the kernel walks the page tables, and the process waits meanwhile."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return resident_bytes(pid)
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), resident_bytes(pid))


@dataclass(slots=True)
class GroupMemory:
    """Watches the memory of a process group: `peak_bytes` is its largest proportional size seen.

    The cheap sum, in which shared pages count for every process, is an upper bound. The dear one is taken only where it can
    say something new: when the bound has grown since the last time, or lies beyond the limit.
    """

    group_id: int
    limit_bytes: int | None
    peak_bytes: int = 0
    _bound_bytes: int = 0
    _strangers: frozenset[int] = frozenset()
    _looks: int = 0

    def exceeds_limit(self) -> bool:
        """Look once more; whether the group takes more than its limit now."""
        known = self._strangers if self._looks % ASK_ALL_EVERY else frozenset()
        self._looks += 1
        members, self._strangers = group_members(self.group_id, known)
        bound = sum(resident_bytes(pid) for pid in members)
        beyond = self.limit_bytes is not None and bound > self.limit_bytes
        if bound <= self._bound_bytes * GROWTH and not beyond:
            return False
        self._bound_bytes = max(self._bound_bytes, bound)
        taken = bound if len(members) == 1 else sum(proportional_bytes(pid) for pid in members)
        self.peak_bytes = max(self.peak_bytes, taken)
        return self.limit_bytes is not None and taken > self.limit_bytes


def own_peak_bytes() -> int:
    """The largest resident size that this process has had; a forked one begins with what its parent held at that moment."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
