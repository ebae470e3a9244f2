"""One `dayzero up` a data folder, and what a killed one left behind."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil

from dayzero.disk import write_whole
from dayzero.errors import BadInputError, DependencyError

LOCK = "up.lock"
CHILDREN = "up.children.json"
ADDRESSES = "up.json"
START_TOLERANCE_S = 1.0


@contextmanager
def only_one(data_dir: Path) -> Iterator[None]:
    """Hold the data folder; BadInputError when another `up` holds it. The lock dies with its process."""
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(data_dir / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DependencyError(
            f"the data folder {data_dir} cannot be used: {error.strerror}.", remedy="Choose another one (DAYZERO_DATA_DIR)."
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise BadInputError(
            f"`dayzero up` already runs on the data folder {data_dir}.",
            remedy="Stop it first, or choose another folder with DAYZERO_DATA_DIR.",
        ) from error
    try:
        yield
    finally:
        os.close(lock)


def write_children(data_dir: Path, pids: Mapping[str, int]) -> None:
    """Note which processes are ours, with their start times, so that a later `up` recognises them."""
    noted = {}
    for name, pid in pids.items():
        try:
            noted[name] = {"pid": pid, "started_s": psutil.Process(pid).create_time()}
        except psutil.NoSuchProcess:
            continue
    write_whole(data_dir / CHILDREN, json.dumps(noted).encode())


def write_addresses(data_dir: Path, addresses: Mapping[str, str | int]) -> None:
    """Say where the doors of this `up` are, once all of it runs."""
    write_whole(data_dir / ADDRESSES, json.dumps(dict(addresses)).encode())


def running_prefect_api(data_dir: Path) -> str | None:
    """The Prefect API of the `up` that runs on the folder, or was killed there; None when there is none."""
    try:
        found = json.loads((data_dir / ADDRESSES).read_text())
    except (OSError, ValueError):
        return None
    api_url = found.get("prefect_api") if isinstance(found, dict) else None
    return api_url if isinstance(api_url, str) else None


def clear_leftovers(data_dir: Path) -> tuple[str, ...]:
    """Kill what a former `up` left running, recognised by pid and start time; the names of what was killed."""
    try:
        noted = json.loads((data_dir / CHILDREN).read_text())
    except (OSError, ValueError):
        return ()
    killed = []
    for name, child in noted.items() if isinstance(noted, dict) else ():
        try:
            process = psutil.Process(int(child["pid"]))
            if abs(process.create_time() - float(child["started_s"])) > START_TOLERANCE_S:
                continue
            for each in (process, *process.children(recursive=True)):
                each.kill()
            process.wait(10)
            killed.append(str(name))
        except (psutil.Error, KeyError, TypeError, ValueError):
            continue
    (data_dir / CHILDREN).unlink(missing_ok=True)
    return tuple(killed)
