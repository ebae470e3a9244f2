"""SIGKILLs of `dayzero fetch` over HTTP and of the hub that it fetches from, and what must hold after each of them."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from dayzero.adapters.transfer.output import INCOMPLETE, JOURNAL, MANIFEST
from dayzero.adapters.transfer.sharding import write_shards
from dayzero.adapters.transfer.verifying import read_manifest
from dayzero.errors import ExitCode
from hub_process import HubProcess
from sharding_kills import sha256, what_is_there
from wide_checkpoints import Config, write_checkpoint

REPO = "acme/wide"
CONNECTIONS = 2
HUB_EACH = 4
"""Every so many kills it is the hub that dies."""
_END_WITHIN_S = 120.0


@dataclass(slots=True)
class FetchKills:
    """What a series of kills came to.

    All kills came after the transfer had begun. `in_work` counts those that interrupted it: of a fetch that had not committed,
    of a hub that the fetch then asked again (`asked_the_next_hub`) or missed (`ended_with_an_error`); a hub that had sent all
    dies for nothing. `found`: what lay on the disk after a kill of the fetch. `redone_bytes`: what the hub sent beyond what
    undisturbed fetches of as many rounds need; `asked_again_bytes` of them are configuration, index and headers, which each
    start reads.
    """

    ranks: str
    bytes_per_s: int
    checkpoint_bytes: int
    connections: int = CONNECTIONS
    kills: int = 0
    of_fetch: int = 0
    of_hub: int = 0
    in_work: int = 0
    starts: int = 0
    rounds: int = 0
    asked_the_next_hub: int = 0
    ended_with_an_error: int = 0
    undisturbed_bytes: int = 0
    start_bytes: int = 0
    sent_bytes: int = 0
    found: Counter[str] = field(default_factory=Counter)

    @property
    def redone_bytes(self) -> int:
        return self.sent_bytes - self.rounds * self.undisturbed_bytes

    @property
    def asked_again_bytes(self) -> int:
        return (self.starts - self.rounds) * self.start_bytes

    def document(self) -> Mapping[str, object]:
        """The figures as the proof keeps them."""
        told = {field.name: getattr(self, field.name) for field in fields(self)}
        redone = {"redone_bytes": self.redone_bytes, "asked_again_bytes": self.asked_again_bytes,
                  "redone_bytes_per_kill": round(self.redone_bytes / self.kills)}  # fmt: skip
        return told | redone | {"found": dict(sorted(self.found.items()))}


def killed_fetches(
    folder: Path, config: Config, files: int, ranks: str, kills: int, *, bytes_per_s: int, checkpoint_bytes: int, seed: int
) -> FetchKills:
    """Fetch the ranks (of tp 2; "": all, from whole files) with so many kills; each end is compared, and it begins anew."""
    models = folder / "models"
    published(models / REPO, config, files)
    figures = FetchKills(ranks, bytes_per_s, checkpoint_bytes)
    with running(models) as hub:
        fetching = _Fetching(folder, hub, figures)
        truth = fetching.undisturbed()
        before = hub.sent_bytes()
        moments = random.Random(seed)
        while figures.kills < kills:
            fetching.killed(truth, moments)
        fetching.to_the_end(truth)
        figures.sent_bytes = hub.sent_bytes() - before
    return figures


def published(place: Path, config: Config, files: int) -> None:
    """A repository with index and configuration."""
    written = write_checkpoint(place, config, files)
    (place / "config.json").write_text(json.dumps({**config, "architectures": ["LlamaForCausalLM"]}))
    weight_map = {tensor.name: tensor.file for tensor in written.index.tensors}
    (place / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


@contextmanager
def running(models: Path) -> Iterator[HubProcess]:
    hub = HubProcess(models)
    try:
        yield hub
    finally:
        hub.kill()


class _Fetching:
    def __init__(self, folder: Path, hub: HubProcess, figures: FetchKills) -> None:
        self._folder, self._hub, self._figures = folder, hub, figures
        self._out = folder / "out"

    def undisturbed(self) -> Mapping[str, str]:
        """Fetch once without a kill, and once more when all is there; the digests that a shard from this disk has."""
        self._once("warm")
        shutil.rmtree(self._folder / "warm")
        self._figures.undisturbed_bytes = self._once("whole")
        self._figures.start_bytes = self._once("whole")
        manifest = read_manifest(self._folder / "whole")
        assert manifest is not None
        layout = replace(
            manifest, files=tuple(replace(file, digest=None, tensor_digests=()) for file in manifest.files), sources=()
        )
        write_shards(self._folder / "models" / REPO, layout, self._folder / "local", None)
        truth = {path.name: sha256(path) for path in (self._folder / "local").glob("rank-*.safetensors")}
        assert truth and all(sha256(self._folder / "whole" / name) == digest for name, digest in truth.items())
        return truth

    def killed(self, truth: Mapping[str, str], moments: random.Random) -> None:
        """One fetch with a kill of it or of its hub, or with none where it is faster."""
        figures = self._figures
        whose = "hub" if figures.kills % HUB_EACH == HUB_EACH - 1 else "fetch"
        # Every second fetch whose hub dies asks once only, so that it ends and somebody has to run it again.
        patient = whose == "fetch" or figures.of_hub % 2 == 0
        process = self._start(retries=6 if patient else 0)
        self._wait_for_bytes(process)
        running = self._waited(process, moments)
        if whose == "hub" and running:
            self._kill_hub(process, truth)
        elif running:
            self._kill_fetch(process, truth)
        else:
            self._ended(process, truth)

    def to_the_end(self, truth: Mapping[str, str]) -> None:
        """The last round, undisturbed."""
        self._ended(self._start(retries=6), truth)

    def _kill_hub(self, process: subprocess.Popen[str], truth: Mapping[str, str]) -> None:
        """The fetch asks the hub again when it is back, or ends with an error; or it had all it needs."""
        figures = self._figures
        self._hub.kill()
        figures.kills, figures.of_hub = figures.kills + 1, figures.of_hub + 1
        self._hub.start()
        before, rounds = self._hub.sent_bytes(), figures.rounds
        self._ended(process, truth, hub_died=True)
        asked = self._hub.sent_bytes() > before
        figures.asked_the_next_hub += asked
        figures.in_work += asked or figures.rounds == rounds

    def _kill_fetch(self, process: subprocess.Popen[str], truth: Mapping[str, str]) -> None:
        # Not send_signal: it would reap a process that has ended already.
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        if process.returncode != -signal.SIGKILL:
            assert process.returncode == 0
            return
        figures = self._figures
        figures.kills, figures.of_fetch = figures.kills + 1, figures.of_fetch + 1
        figures.in_work += not (self._out / MANIFEST).exists()
        figures.found[what_is_there(self._out, truth)] += 1

    def _ended(self, process: subprocess.Popen[str], truth: Mapping[str, str], *, hub_died: bool = False) -> None:
        """A fetch that ended by itself: with everything, or where its hub died with an error that says so."""
        figures = self._figures
        _, said = process.communicate(timeout=_END_WITHIN_S)
        if process.returncode:
            assert hub_died and process.returncode == ExitCode.DEPENDENCY, said
            assert self._hub.url in said and "Traceback" not in said, said
            figures.ended_with_an_error += 1
            return
        self._compare(truth)
        figures.rounds += 1
        shutil.rmtree(self._out)

    def _compare(self, truth: Mapping[str, str]) -> None:
        manifest = read_manifest(self._out)
        assert manifest is not None and {file.path for file in manifest.files} <= set(truth)
        assert all(sha256(self._out / file.path) == truth[file.path] for file in manifest.files)
        assert manifest.verified is (not self._figures.ranks)
        assert not [path.name for path in self._out.iterdir() if path.name.endswith(INCOMPLETE) or path.name == JOURNAL]

    def _waited(self, process: subprocess.Popen[str], moments: random.Random) -> bool:
        """Let it work for a random while; False when it ends before."""
        until_s = time.monotonic() + moments.uniform(0, self._figures.undisturbed_bytes / self._figures.bytes_per_s)
        while time.monotonic() < until_s:
            if process.poll() is not None:
                return False
            time.sleep(0.005)
        return process.poll() is None

    def _wait_for_bytes(self, process: subprocess.Popen[str]) -> None:
        """Until the hub sends more than what each start asks for."""
        before = self._hub.sent_bytes()
        while process.poll() is None and self._hub.sent_bytes() - before <= self._figures.start_bytes:
            time.sleep(0.005)

    def _once(self, into: str) -> int:
        before = self._hub.sent_bytes()
        ended = subprocess.run(self._command(f"hf:{REPO}", into), env=self._environment(), check=False, capture_output=True)
        assert ended.returncode == 0, ended.stderr
        return self._hub.sent_bytes() - before

    def _start(self, retries: int) -> subprocess.Popen[str]:
        self._figures.starts += 1
        return subprocess.Popen(
            self._command(f"hf:{REPO}", "out"), env=self._environment(retries), text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip

    def _command(self, model: str, into: str) -> list[str]:
        ranks = ["--ranks", self._figures.ranks] if self._figures.ranks else []
        return [
            sys.executable,
            "-m",
            "dayzero.cli.main",
            "fetch",
            model,
            "--out",
            str(self._folder / into),
            "--tp",
            "2",
            *ranks,
        ]

    def _environment(self, retries: int = 6) -> dict[str, str]:
        limits = {"HUB_BYTES_PER_S": self._figures.bytes_per_s, "HUB_CONNECTIONS": CONNECTIONS, "HUB_RETRIES": retries,
                  "CHECKPOINT_BYTES": self._figures.checkpoint_bytes, "HF_ENDPOINT": self._hub.url,
                  "DATA_DIR": self._folder / "data"}  # fmt: skip
        path = os.pathsep.join(part for part in sys.path if part)
        return {**os.environ, "PYTHONPATH": path} | {f"DAYZERO_{name}": str(value) for name, value in limits.items()}


def most_in_flight(figures: FetchKills) -> int:
    """Bytes that a kill may cost: one checkpoint on its way to the disk, one filling with the windows that fill it over, and
    what is under way on each connection, in the kernel's buffers."""
    buffers = sum(int(Path(f"/proc/sys/net/ipv4/{name}").read_text().split()[2]) for name in ("tcp_rmem", "tcp_wmem"))
    return 2 * (figures.checkpoint_bytes + (1 << 20) * CONNECTIONS) + CONNECTIONS * buffers
