"""How much memory this host lets us take."""

from pathlib import Path


def memory_limit_bytes() -> int | None:
    """The smaller of the cgroup's limit and the machine's memory, in bytes; None where neither can be read."""
    limits = [limit for limit in (_cgroup_limit_bytes(), _machine_bytes()) if limit is not None]
    return min(limits) if limits else None


def _cgroup_limit_bytes() -> int | None:
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            return int(text)
    return None


def _machine_bytes() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return None
