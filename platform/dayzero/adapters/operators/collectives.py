"""Measures the collectives of a device between processes, by size."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dayzero import codec
from dayzero.adapters.operators.library import child_environment
from dayzero.domain.manifests import CollectiveFact
from dayzero.errors import MeasurementError

_CHILD = "dayzero.adapters.operators.collective_child"
_POLL_S = 0.1
_TAIL_CHARACTERS = 300


def probe_collectives(
    *, device: str, backend: str, ranks: int, python: str = sys.executable, timeout_s: float = 300.0
) -> tuple[CollectiveFact, ...]:
    """Times by collective and size, between `ranks` processes of this host; none for fewer than two.

    MeasurementError: a rank failed, or they did not end in time.
    """
    if ranks < 2:
        return ()
    with tempfile.TemporaryDirectory(prefix="dayzero-collectives-") as folder:
        out = Path(folder) / "facts.json"
        environment = child_environment(folder) | {"GLOO_SOCKET_IFNAME": "lo"}
        processes, logs = [], []
        try:
            for rank in range(ranks):
                command = [
                    python,
                    "-P",
                    "-m",
                    _CHILD,
                    str(rank),
                    str(ranks),
                    backend,
                    device,
                    str(Path(folder) / "store"),
                    str(out),
                ]
                log = Path(folder) / f"rank{rank}.log"
                with log.open("wb") as errors:
                    processes.append(
                        subprocess.Popen(
                            command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors
                        )
                    )
                logs.append(log)
            _wait(processes, logs, timeout_s)
        finally:
            for process in processes:
                process.kill()
                process.wait()
        return codec.load(tuple[CollectiveFact, ...], out.read_bytes())


def _wait(processes: list[subprocess.Popen[bytes]], logs: list[Path], timeout_s: float) -> None:
    ends_s = time.monotonic() + timeout_s
    while any(process.poll() is None for process in processes):
        failed = next((rank for rank, process in enumerate(processes) if process.poll()), None)
        if failed is not None or time.monotonic() > ends_s:
            break
        time.sleep(_POLL_S)
    failed = next((rank for rank, process in enumerate(processes) if process.poll() != 0), None)
    if failed is not None:
        tail = logs[failed].read_bytes().decode("utf-8", "replace").strip()[-_TAIL_CHARACTERS:]
        raise MeasurementError(f"the collectives could not be measured: rank {failed} {tail or 'did not end in time'}")
