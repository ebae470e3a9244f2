"""SIGKILLs of a sharding process at random moments, and what must hold after each of them."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from dayzero.adapters.transfer.output import INCOMPLETE, JOURNAL, MANIFEST
from dayzero.adapters.transfer.sharding import write_shards
from dayzero.adapters.transfer.sources import WINDOW_BYTES
from dayzero.adapters.transfer.verifying import read_manifest
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import ShardManifest
from dayzero.stages.transfer.routing import routes_of, tensors_by_source
from hub_process import written_by
from wide_checkpoints import Config, Written, write_checkpoint


@dataclass(slots=True)
class KillFigures:
    """What a series of kills came to. `found` counts the kills by what lay on the disk after them.

    `redone_bytes`: what was written beyond what the shards hold, as the kernel counts. `lost_bytes`: what had been written at
    each kill and was not durable yet by the journal's word, so that it was written again.
    """

    kills: int = 0
    runs_to_the_end: int = 0
    output_bytes: int = 0
    checkpoint_bytes: int = 0
    redone_bytes: int = 0
    lost_bytes: int = 0
    most_lost_bytes: int = 0
    found: Counter[str] = field(default_factory=Counter)

    def document(self) -> Mapping[str, object]:
        """The figures as the proof keeps them."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | {"found": dict(sorted(self.found.items()))}


def killed_again_and_again(
    folder: Path, config: Config, files: int, kills: int, checkpoint_bytes: int, seed: int
) -> KillFigures:
    """Shard to tp 4, killed so many times at random moments; each time it ends all is compared and it begins anew."""
    written = write_checkpoint(folder / "model", config, files)
    layout = written.layout(Degrees(tp=4))
    began_s = time.monotonic()
    write_shards(written.folder, layout, folder / "whole", None)
    typical_s = time.monotonic() - began_s
    truth = {file.path: sha256(folder / "whole" / file.path) for file in layout.files}
    figures = KillFigures(output_bytes=sum(file.size_bytes for file in layout.files), checkpoint_bytes=checkpoint_bytes)
    moments = random.Random(seed)
    before = durable = 0
    while figures.kills < kills:
        moved, ended = run(written, folder / "out", checkpoint_bytes, moments.uniform(0, 1.2 * typical_s))
        before += moved
        if not ended:
            figures.kills += 1
            figures.found[what_is_there(folder / "out", truth)] += 1
            lost, durable = durable + moved, durable_bytes(folder / "out", written, layout)
            figures.lost_bytes += max(0, lost - durable)
            figures.most_lost_bytes = max(figures.most_lost_bytes, lost - durable)
            continue
        figures.runs_to_the_end += 1
        compare(folder, truth, figures, before)
        before = durable = 0
    before += run(written, folder / "out", checkpoint_bytes, None)[0]
    compare(folder, truth, figures, before)
    return figures


def run(written: Written, into: Path, checkpoint_bytes: int, kill_after_s: float | None) -> tuple[int, bool]:
    """One sharding process, killed so long after its first byte may be written; (bytes that it wrote, whether it ended)."""
    arguments = [sys.executable, __file__, str(written.folder), str(into), str(checkpoint_bytes)]
    process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=child_environment())
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    told = written_by(process.pid)
    process.stdin.write(repr(written.config).encode() + b"\n")
    process.stdin.close()
    if kill_after_s is not None:
        time.sleep(kill_after_s)
        # Not send_signal: it would reap a process that has ended already.
        os.kill(process.pid, signal.SIGKILL)
    # The kernel keeps what a process has written until it is waited for.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    moved = written_by(process.pid) - told
    process.stdout.close()
    code = process.wait()
    assert code in (0, -signal.SIGKILL), code
    return moved, code == 0


def what_is_there(out: Path, truth: Mapping[str, str]) -> str:
    """What a kill left; everything under a final name must be whole."""
    names = {path.name for path in out.iterdir()} if out.exists() else set()
    shards = names & set(truth)
    for name in shards:
        assert sha256(out / name) == truth[name], f"{name} has its name and is not whole"
    if MANIFEST in names:
        assert read_manifest(out) is not None and shards == set(truth)
        return "everything committed"
    if shards:
        return "some ranks named"
    if JOURNAL in names:
        return "a journal"
    return "files without a journal" if any(name.endswith(INCOMPLETE) for name in names) else "nothing"


def durable_bytes(out: Path, written: Written, layout: ShardManifest) -> int:
    """Bytes of rank files that a run need not write again, by what the journal says."""
    if (out / MANIFEST).exists():
        return sum(file.size_bytes for file in layout.files)
    if not (out / JOURNAL).exists():
        return 0
    reached: dict[str, int] = {}
    for line in (out / JOURNAL).read_bytes().splitlines(keepends=True)[1:]:
        if line.endswith(b"\n"):
            fact = json.loads(line.partition(b" ")[2])
            reached[fact["source"]] = max(reached.get(fact["source"], 0), fact["to"])
    slices = tensors_by_source(layout)
    total = 0
    for source, to in reached.items():
        headers = [header for header in written.index.tensors if header.file == source]
        for route in routes_of(layout, slices[source], headers).routes:
            passed = max(0, min(to, route.end) - route.begin)
            total += passed * route.taken_bytes // route.row_bytes
    return total


def compare(folder: Path, truth: Mapping[str, str], figures: KillFigures, moved: int) -> None:
    """The end is the one that an undisturbed run has, and little was written twice."""
    out = folder / "out"
    assert {file.path: sha256(out / file.path) for file in read_manifest(out).files} == truth
    assert (out / MANIFEST).read_bytes() == (folder / "whole" / MANIFEST).read_bytes()
    assert not [path.name for path in out.iterdir() if path.name.endswith(INCOMPLETE) or path.name == JOURNAL]
    figures.redone_bytes += max(0, moved - figures.output_bytes)
    shutil.rmtree(out)


def most_in_flight(checkpoint_bytes: int) -> int:
    """Bytes that a kill may cost: one checkpoint on its way to the disk, one filling, and the window that fills it over."""
    return 2 * (checkpoint_bytes + 2 * WINDOW_BYTES)


def sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def child_environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def child(folder: Path, into: Path, checkpoint_bytes: int) -> None:
    """The process that is killed: it reads the checkpoint's headers itself, as any run does."""
    from ast import literal_eval

    from dayzero.stages.headers.reading import LENGTH_BYTES, header_length, index_of, parse_header

    print("ready", flush=True)
    config = literal_eval(sys.stdin.readline())
    headers = {}
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as stream:
            size = path.stat().st_size
            length = header_length(stream.read(LENGTH_BYTES), path.name, size)
            headers[path.name] = parse_header(path.name, size, stream.read(length))
    written = Written(folder, config, index_of(headers, None), tuple(sorted(headers)))
    write_shards(folder, written.layout(Degrees(tp=4)), into, None, checkpoint_bytes=checkpoint_bytes)


if __name__ == "__main__":
    child(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
