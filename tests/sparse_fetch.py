"""One rank of a repository of holes, fetched by ranges from our own hub: what it asks for, and the memory that it takes.

python tests/sparse_fetch.py URL OUT TP PP EP DP RANK      fetches it and prints the figures as JSON
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from dayzero.adapters.hubs.hugging_face import HuggingFaceHub
from dayzero.adapters.hubs.serving import HubServer
from dayzero.adapters.transfer.weights import WeightTransfer
from dayzero.domain.planning import Degrees
from dayzero.stages.layout.laying import lay_out
from dayzero.stages.structure.reading import read_spec
from dayzero.stages.transfer.slices import slices_of
from dayzero.steps.headers import checkpoint_index
from sparse_repository import kimi_like, write_sparse

REPO = "acme/holes"


def serve_holes(folder: Path, layers: int) -> HubServer:
    """A hub over a sparse repository whose weights have made-up digests: nobody hashes terabytes of holes for a test."""
    home = folder / "models" / REPO
    write_sparse(kimi_like(layers), home)
    rows = {}
    for path in home.glob("*.safetensors"):
        state = path.stat()
        rows[str(path)] = [state.st_size, state.st_mtime_ns, state.st_ino, "b" * 40, "a" * 64]
    (folder / "state").mkdir()
    (folder / "state" / "digests.json").write_text(json.dumps(rows))
    return HubServer(folder / "models", state=folder / "state")


def run(url: str, out: Path, degrees: Degrees, rank: int) -> dict[str, Any]:
    """Fetch the rank in a process of its own."""
    asked = (degrees.tp, degrees.pp, degrees.ep, degrees.dp, rank)
    command = [sys.executable, str(Path(__file__)), url, str(out), *map(str, asked)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def fetch(url: str, out: Path, degrees: Degrees, rank: int) -> dict[str, Any]:
    """Headers, layout, slices and the rank's file, each with its seconds."""
    clock = [time.monotonic()]
    hub = HuggingFaceHub(url, None)
    release = hub.release(REPO, None)
    index = checkpoint_index(hub, release)
    clock.append(time.monotonic())
    spec = read_spec(hub.read_small(release, "config.json", 1 << 20), index)
    layout = lay_out(release.content_id, spec, index, degrees, ranks=(rank,))
    plan = slices_of(layout, index, (rank,))
    clock.append(time.monotonic())
    manifest = WeightTransfer(connections=4).stream(hub, release, index, layout, out, None, slices=plan)
    clock.append(time.monotonic())
    (file,) = manifest.files
    return {
        "weight_bytes": index.weight_bytes, "tensors": len(index.tensors), "plan": str(degrees), "ranks": degrees.world,
        "rank_bytes": file.weight_bytes, "written_bytes": (out / file.path).stat().st_size, "size_bytes": file.size_bytes,
        "read_bytes": plan.read_bytes, "overread_bytes": plan.overread_bytes, "requests": plan.requests,
        "requests_per_gib": plan.requests_per_gib, "verified": any(source.verified for source in manifest.sources),
        "headers_s": clock[1] - clock[0], "manifest_s": clock[2] - clock[1], "fetch_s": clock[3] - clock[2],
        "peak_bytes": _peak_bytes(),
    }  # fmt: skip


def _peak_bytes() -> int:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    tp, pp, ep, dp, rank = map(int, sys.argv[3:8])
    print(json.dumps(fetch(sys.argv[1], Path(sys.argv[2]), Degrees(tp=tp, pp=pp, ep=ep, dp=dp), rank)))
