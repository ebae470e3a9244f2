"""A whole `dayzero up` on a folder of its own, a hub, a subscriber, and the means to kill any part of it.

What is read of the database goes past dayzero's own code, so that looking neither starts a server nor keeps one alive.
"""

import base64
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
from psycopg.rows import dict_row

from dayzero import app
from dayzero.adapters.hubs.serving.server import HubServer
from dayzero.adapters.processes.folder import CHILDREN
from dayzero.adapters.processes.ports import free_port
from dayzero.demo.publishing import publish_configuration, publish_weights
from dayzero.demo.receiver import Mailbox, receiving
from dayzero.domain.release import HubKind
from dayzero.domain.subscriptions import Channel
from dayzero.domain.watching import Rule
from dayzero.settings import Settings, load_settings

LOOK_EVERY_S = 0.02
UP_TIMEOUT_S = 400.0
END_TIMEOUT_S = 900.0
ORPHAN_AFTER_S = 12
PRESTAGED = ("configuration", "structure", "inventory", "coverage", "plan")
COMPLETED = "dayzero.adaptation.completed"
STAGES = (
    *("structure", "inventory", "coverage", "plan", "headers", "plan-weights", "fetch", "shard"),
    *("operators", "layers", "perplexity", "parallel", "memory", "generation", "bundle", "image"),
)
"""The markers that an adaptation's steps write, in their order."""

GOING_ON = ("requested", "running")
Row = Mapping[str, Any]


@dataclass(slots=True)
class Scenario:
    """A group on `folder`; `host` is the address that its doors listen on."""

    folder: Path
    hub_url: str
    mailbox: Mailbox
    environment: dict[str, str]
    host: str
    process: subprocess.Popen[bytes] | None = None
    addresses: dict[str, str] = field(default_factory=dict)

    @property
    def data_dir(self) -> Path:
        """The control plane's data folder."""
        return self.folder / "data"

    @property
    def log(self) -> str:
        """What `dayzero up` and its children said lately."""
        logs = [self.folder / "up.log", *sorted((self.data_dir / "logs").glob("*.log"))]
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}" for log in logs if log.is_file())

    def begin(self) -> None:
        """Start the group and wait until it says that it is ready."""
        (self.data_dir / "up.json").unlink(missing_ok=True)
        with (self.folder / "up.log").open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "dayzero.cli.main", "up"],
                env=self.environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        deadline_s = time.monotonic() + UP_TIMEOUT_S
        while not (self.data_dir / "up.json").exists():
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline_s, self.log
            time.sleep(0.1)
        self.addresses = dict(json.loads((self.data_dir / "up.json").read_text()))

    def end(self) -> None:
        """Ctrl-C; the whole group goes."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(90)
        finally:
            self.kill_group()

    def settings(self) -> Settings:
        """The control plane's settings on the server that runs now."""
        return load_settings(
            data_dir=self.data_dir, hf_endpoint=self.hub_url, database_url=self.database_url(), platforms=("cpu",)
        )

    def database_url(self, database: str = "dayzero") -> str:
        """The embedded server's URL, as its last start left it."""
        known = json.loads((self.data_dir / "postgres.json").read_text())
        return f"postgresql+psycopg://dayzero:{known['password']}@127.0.0.1:{known['port']}/{database}"

    def connect(self, database: str = "dayzero") -> psycopg.Connection[dict[str, Any]]:
        """A connection of our own, each statement a transaction."""
        url = self.database_url(database).replace("+psycopg", "")
        return psycopg.connect(url, autocommit=True, row_factory=dict_row, connect_timeout=5)

    def rows(self, query: str, *values: object, database: str = "dayzero") -> list[Row]:
        """What a query says now."""
        with self.connect(database) as connection:
            return list(connection.execute(query.encode(), values).fetchall())

    def change(self, statement: str, *values: object, database: str = "dayzero") -> int:
        """Change rows; how many."""
        with self.connect(database) as connection:
            return connection.execute(statement.encode(), values).rowcount

    def watch_and_subscribe(self) -> None:
        """Watch the hub, and tell the mailbox everything."""
        with app.control_plane(self.settings()) as plane:
            plane.watchbook.add_source(HubKind.HUGGING_FACE, self.hub_url, Rule(platforms=("cpu",)), None)
            plane.subscribers.subscribe(Channel.WEBHOOK, self.mailbox.url, "", self.mailbox.secret)

    def prestage(self, model_dir: Path, repo_id: str) -> None:
        """Publish the configuration alone and wait for the pre-stage to be done."""
        publish_configuration(model_dir, self.folder / "hub", repo_id)
        assert self.until_ended(repo_id, "prestage")["state"] == "done", self.log

    def publish(self, model_dir: Path, repo_id: str) -> None:
        """Publish the weights."""
        publish_weights(model_dir, self.folder / "hub", repo_id)

    def adaptation(self, repo_id: str, purpose: str = "adapt") -> Row | None:
        """The row of that work, or None."""
        found = self.rows(
            "SELECT a.* FROM adaptations a JOIN models m ON m.id = a.model_id WHERE m.name = %s AND a.purpose = %s",
            repo_id,
            purpose,
        )
        assert len(found) <= 1, found
        return found[0] if found else None

    def until_ended(self, repo_id: str, purpose: str = "adapt", timeout_s: float = END_TIMEOUT_S) -> Row:
        """The row once it is neither requested, nor running, nor held for want of a worker."""
        found: Row | None = None

        def ended() -> bool:
            nonlocal found
            with suppress(psycopg.OperationalError):
                found = self.adaptation(repo_id, purpose)
            return found is not None and found["state"] not in GOING_ON and not _is_held(found)

        self.until(ended, timeout_s, lambda: f"{repo_id} {purpose}: {found}")
        assert found is not None
        return found

    def until_stage(self, repo_id: str, stage: str, since: datetime) -> str:
        """Wait for the marker of a stage, written or confirmed after that moment; the marker that was seen.

        A later one is seen when the stage was over before we looked again, or "" when the work has ended.
        """
        wanted = STAGES[STAGES.index(stage) :]
        query = (
            b"SELECT a.state, a.stage FROM adaptations a JOIN models m ON m.id = a.model_id"
            b" WHERE m.name = %s AND a.purpose = 'adapt' AND a.heartbeat_at > %s"
        )
        deadline_s = time.monotonic() + END_TIMEOUT_S
        while time.monotonic() < deadline_s:
            try:
                with self.connect() as connection:
                    while time.monotonic() < deadline_s:
                        for row in connection.execute(query, (repo_id, since)).fetchall():
                            if row["state"] == "done":
                                return ""
                            if row["state"] == "running" and row["stage"] in wanted:
                                return str(row["stage"])
                        time.sleep(LOOK_EVERY_S)
            except psycopg.OperationalError:
                time.sleep(0.2)
        raise AssertionError(f"{repo_id} never came to {stage}: {self.adaptation(repo_id)}\n{self.log}")

    def until(self, happened: Callable[[], bool], timeout_s: float, told: Callable[[], str]) -> None:
        """Wait for something."""
        deadline_s = time.monotonic() + timeout_s
        while not happened():
            assert time.monotonic() < deadline_s, f"{told()}\n{self.log}"
            time.sleep(0.25)

    def child(self, name: str) -> psutil.Process:
        """A process of the group by its name there."""
        return psutil.Process(int(json.loads((self.data_dir / CHILDREN).read_text())[name]["pid"]))

    def kill_worker(self) -> None:
        """SIGKILL the platform's worker and everything that descends from it; the group starts it again.

        A worker that was killed before is waited for: stages of the control plane go on while there is none.
        """
        self.until(self.worker_lives, UP_TIMEOUT_S, lambda: "the group never started the worker again")
        kill_tree(self.child("worker-cpu"))

    def worker_lives(self) -> bool:
        """Whether the group's worker is a living process."""
        try:
            return self.child("worker-cpu").status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def kill_group(self) -> None:
        """SIGKILL `up` and everything that descends from it, Postgres too."""
        if self.process is not None and self.process.poll() is None:
            kill_tree(psutil.Process(self.process.pid))
            self.process.wait()
        self.kill_postgres()
        for left in self.left_over():
            with suppress(psutil.NoSuchProcess):
                left.kill()

    def kill_postgres(self) -> None:
        """SIGKILL the embedded server with all its processes."""
        try:
            pid = int((self.data_dir / "postgres" / "postmaster.pid").read_text().splitlines()[0])
            kill_tree(psutil.Process(pid))
        except (OSError, ValueError, IndexError, psutil.NoSuchProcess):
            return

    def left_over(self) -> list[psutil.Process]:
        """Every process that belongs to this data folder."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                told = process.environ().get("DAYZERO_DATA_DIR", "") + " ".join(process.cmdline())
                if str(self.data_dir) in told and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def completions(self, repo_id: str) -> list[str]:
        """The ids of the completions that the subscriber got, repeats included."""
        return [note.id for note in self.mailbox.messages if note.kind == COMPLETED and note.subject == repo_id]


def _is_held(row: Row) -> bool:
    """Blocked until a worker joins or tells what it offers: the reconciler takes it up again by itself."""
    reason = str(row["reason"] or "")
    return row["state"] == "blocked" and ("no worker for platform" in reason or "nobody has told yet" in reason)


def kill_tree(process: psutil.Process) -> None:
    """SIGKILL a process and all its descendants, the parents first."""
    tree = [process, *process.children(recursive=True)]
    for each in tree:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    # Not every one is our child: wait until the system has no living process left.
    deadline_s = time.monotonic() + 20
    while any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in tree if psutil.pid_exists(each.pid)):
        assert time.monotonic() < deadline_s, tree
        time.sleep(0.05)


@contextmanager
def scenario(*, host: str = "127.0.0.1", **extra: str) -> Iterator[Scenario]:
    """A hub, a subscriber and a group that is not started yet, on a new folder; everything is gone afterwards."""
    secret = "whsec_" + base64.b64encode(secrets.token_bytes(24)).decode()
    with tempfile.TemporaryDirectory(prefix="dayzero-e2e-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        folder.chmod(0o711)  # the embedded server has an account of its own
        (folder / "hub").mkdir()
        with HubServer(folder / "hub", host=host) as hub, receiving(secret) as mailbox:
            made = Scenario(folder, hub.url, mailbox, _environment(folder, hub.url, host, extra), host)
            try:
                yield made
            finally:
                made.end()
                made.kill_group()


def _environment(folder: Path, hub_url: str, host: str, extra: Mapping[str, str]) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("DAYZERO_", "PREFECT_", "HF_"))}
    own = {
        "DAYZERO_DATA_DIR": str(folder / "data"),
        "DAYZERO_HOST": host,
        "DAYZERO_PORT": str(free_port(host)),
        "DAYZERO_PREFECT_PORT": str(free_port(host)),
        "DAYZERO_HF_ENDPOINT": hub_url,
        "DAYZERO_CPU_DEVICES": "2",
        "DAYZERO_SUBSCRIBER_NETWORKS": '["127.0.0.0/8"]',
        "DAYZERO_COMPILE_TARGET": "false",
        "DAYZERO_REHEARSE": "false",
        "DAYZERO_POLL_INTERVAL_S": "1",
        "DAYZERO_RECONCILE_INTERVAL_S": "1",
        "DAYZERO_ORPHAN_AFTER_S": str(ORPHAN_AFTER_S),
        "DAYZERO_MAX_ATTEMPTS": "100",
        "OMP_NUM_THREADS": "2",
    }
    return {**inherited, **own, **extra}


def is_open(url: str) -> bool:
    """Whether an HTTP door answers."""
    try:
        return httpx.get(url, timeout=2.0, trust_env=False).is_success
    except httpx.TransportError:
        return False
