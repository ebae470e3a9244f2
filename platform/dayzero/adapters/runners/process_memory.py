"""Resident memory of a process group, read from /proc."""

from pathlib import Path


def group_members(group_id: int) -> tuple[int, ...]:
    """Process ids whose process group is the given one."""
    members = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if int(fields[2]) == group_id:
            members.append(int(folder.name))
    return tuple(members)


def resident_bytes(pid: int) -> int:
    """A process's proportional resident bytes (a page shared by n processes counts 1/n); plain resident bytes where the
    kernel does not tell; 0 when the process is gone."""
    for file, label in (("smaps_rollup", "Pss:"), ("status", "VmRSS:")):
        try:
            lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            if line.startswith(label):
                return int(line.split()[1]) * 1024
    return 0


def group_resident_bytes(group_id: int) -> int:
    """Resident bytes of all processes of the group."""
    return sum(resident_bytes(pid) for pid in group_members(group_id))


def own_peak_bytes() -> int:
    """The largest resident size that this process has had."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
