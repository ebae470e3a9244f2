"""One observation of a checkpoint within a memory limit, which a cgroup holds where this process may make one.

    python tests/streaming_run.py FOLDER OBSERVATION LIMIT_BYTES WHERE WORK TOKENS     prints one JSON document

OBSERVATION is layers or perplexity; LIMIT_BYTES 0 is none; WHERE is auto, memory or stream; WORK takes what the runner keeps.
"""

import json
import sys
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

from cgroups import MemoryGroup, own_group
from dayzero.adapters.runners.isolated import SubprocessRunner
from dayzero.domain.runs import Observation, RunLimits, RunRequest

TIMEOUT_S = 3000.0
APART = ("observed_s", "source")
"""What two runs of the same may differ in."""


def measured(folder: Path, observation: str, limit_bytes: int, where: str, work: Path, tokens: int) -> dict[str, Any]:
    """How the run ended, what it took, and the digest of every figure that it observed."""
    with own_group() as group:
        held = group is not None and limit_bytes > 0 and group.hold_to(limit_bytes)
        runner = SubprocessRunner(work)
        began = time.monotonic()
        try:
            asked = RunRequest(
                Observation(observation), "cpu", str(folder), options={"layers_from": where, "tokens": tokens, "compile": False}
            )
            outcome = runner.run(asked, RunLimits(TIMEOUT_S, limit_bytes or None))
        finally:
            runner.close()
        wall_s = time.monotonic() - began
        peak = _peak(group)
    document = json.loads(outcome.document) if outcome.document else {}
    kept = {name: value for name, value in document.items() if name not in APART}
    return {
        "end": outcome.end.value, "reason": outcome.reason, "wall_s": wall_s, "peak_rss_bytes": outcome.peak_rss_bytes,
        "cgroup_limit_bytes": limit_bytes if held else None, "cgroup_peak_bytes": peak, "source": document.get("source"),
        "layers": len(document.get("layers", ())), "digest": sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest(),
        "figures": len(json.dumps(kept)), "log": outcome.log_tail[-500:] if not document else "",
    }  # fmt: skip


def _peak(group: MemoryGroup | None) -> int | None:
    return None if group is None else group.peak_bytes()


if __name__ == "__main__":
    print(
        json.dumps(measured(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4], Path(sys.argv[5]), int(sys.argv[6])))
    )
