"""SIGKILL of a fetch and of the hub that it fetches from, at random moments: the same bytes in the end."""

import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dayzero.adapters.transfer.weights import WeightTransfer
from dayzero.domain.planning import Degrees
from dayzero.stages.transfer.slices import slices_of
from published_models import REPO, known_at, publish

pytestmark = [pytest.mark.hub, pytest.mark.slow]
KILLS = 8
SLICED = """
import sys
from dataclasses import replace
from pathlib import Path
from dayzero.adapters.hubs.hugging_face import HuggingFaceHub
from dayzero.adapters.hubs.lines import LineLimits
from dayzero.adapters.transfer.streaming import stream_shards
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import Integrity
from published_models import known_at
from dayzero.stages.transfer.slices import slices_of

url, out, ranks = sys.argv[1], Path(sys.argv[2]), tuple(map(int, sys.argv[3].split(",")))
known = known_at(url, retries=20)
hub = HuggingFaceHub(url, None, retries=20, first_wait_s=0.05, limits=LineLimits(connections=2, bytes_per_s=4e6))
layout = known.layout(Degrees(tp=2), ranks)
slices = slices_of(layout, known.index, ranks) if len(ranks) == 1 else None
print("begun", flush=True)
stream_shards(hub, known.release, known.index, layout, out, None, slices=slices, connections=2, checkpoint_bytes=200_000)
"""


class KillableHub:
    """`dayzero hub serve` on one port, which may be killed and started again."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self._port = found.getsockname()[1]
        self._folder, self.url = folder, f"http://127.0.0.1:{self._port}"
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "dayzero.cli.main", "hub", "serve", str(self._folder), "--port", str(self._port)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            with socket.socket() as asked:
                if asked.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            time.sleep(0.05)
        raise AssertionError("the hub did not start")

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


@pytest.mark.parametrize("ranks", ["0,1", "0"], ids=["whole", "slices"])
def test_kills_change_nothing(tmp_path: Path, ranks: str) -> None:
    publish(tmp_path / "models")
    chosen = random.Random(7)
    hub = KillableHub(tmp_path / "models")
    out, kept = tmp_path / "out", 0
    try:
        known = known_at(hub.url)
        asked = tuple(map(int, ranks.split(",")))
        layout = known.layout(Degrees(tp=2), asked)
        read_bytes = slices_of(layout, known.index, asked).read_bytes
        for number in range(KILLS):
            command = [sys.executable, "-c", SLICED, hub.url, str(out), ranks]
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={"PYTHONPATH": str(Path(__file__).parents[2])}
            )
            assert process.stdout is not None and process.stdout.readline()
            time.sleep(chosen.uniform(0.0, read_bytes / 4e6))
            if number % 3 == 2:
                hub.kill()
                time.sleep(0.1)
                hub.start()
            process.send_signal(signal.SIGKILL)
            process.communicate()
            if (out / "manifest.json").exists():
                kept += 1
        ended = subprocess.run([sys.executable, "-c", SLICED, hub.url, str(out), ranks], check=False, capture_output=True,
                               text=True, env={"PYTHONPATH": str(Path(__file__).parents[2])})  # fmt: skip
        assert ended.returncode == 0, ended.stderr
    finally:
        hub.kill()
    assert kept < KILLS, "no kill came before the end"
    WeightTransfer().shard(tmp_path / "models" / REPO, layout, tmp_path / "local", None)
    for one in (tmp_path / "local").glob("rank-*.safetensors"):
        assert (out / one.name).read_bytes() == one.read_bytes()
    assert not [path.name for path in out.iterdir() if path.name.endswith(".incomplete")]
