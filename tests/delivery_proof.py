"""Events told to subscribers while dispatchers, database and receivers are killed, and what must hold at the end."""

import json
import os
import random
import secrets
import signal
import subprocess
import sys
import threading
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil
from sqlalchemy import Engine, text

from dayzero.adapters.host.clock import SystemClock
from dayzero.adapters.processes.ports import free_port
from dayzero.adapters.store import embedded, migrate
from dayzero.adapters.store.connection import open_engine, transaction
from dayzero.adapters.store.events import write_event
from dayzero.adapters.store.subscribers import SqlSubscribers
from dayzero.adapters.vault.fernet import FernetVault
from dayzero.domain.events import EventKind
from dayzero.domain.subscriptions import Channel, Standing
from dayzero.errors import DayzeroError

DISPATCHERS = 2
LANES = 8
BATCH = 50
HERE = Path(__file__).parent
BACK_BEFORE_THE_LIMIT = ("", "slow", "flaky")
"""Moods of those that get every event without a replay."""


@dataclass(slots=True)
class Figures:
    """What a run came to; `late` are messages that were given up for subscribers that came back too late, and replayed."""

    events: int = 0
    subscribers: int = 0
    subjects: int = 0
    moods: dict[str, int] = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)
    messages_taken: int = 0
    duplicates: int = 0
    dead_letters: int = 0
    replayed: int = 0
    seconds: float = 0.0
    told_per_s: float = 0.0

    def document(self) -> Mapping[str, object]:
        """As the proof keeps them."""
        return {**asdict(self), "kills": dict(self.kills)}


class Children:
    """Processes that are started again when they were killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, tuple[list[str], subprocess.Popen[bytes]]] = {}

    def start(self, name: str, *arguments: str) -> None:
        with (self._folder / f"{name}.err").open("ab") as errors:
            child = subprocess.Popen([sys.executable, *arguments], stdout=errors, stderr=errors)
        self._running[name] = (list(arguments), child)

    def kill(self, name: str) -> None:
        _, child = self._running[name]
        child.send_signal(signal.SIGKILL)
        child.wait()

    def again(self, name: str) -> None:
        self.start(name, *self._running[name][0])

    def end(self) -> None:
        for name, (_, child) in self._running.items():
            if child.poll() is None:
                self.kill(name)


class Scene:
    """A database, dispatchers, and receivers with subscribers of given moods, on a folder of their own."""

    def __init__(self, folder: Path, moods: list[str], receivers: int) -> None:
        self.data, self.folder, self.moods = folder / "data", folder / "told", moods
        self.folder.mkdir()
        self.secret = "whsec_" + b64encode(secrets.token_bytes(24)).decode()
        self.children = Children(folder)
        self.url = embedded.start(self.data)
        migrate.upgrade(self.url)
        self.engine: Engine = open_engine(self.url)
        self.key = folder / "subscribers.key"
        self.subscribers = SqlSubscribers(self.engine, SystemClock(), FernetVault(self.key))
        self.ports = [free_port("127.0.0.1") for _ in range(receivers)]
        self.ids: dict[str, str] = {}
        self._begin()

    def _begin(self) -> None:
        for number, port in enumerate(self.ports):
            program = str(HERE / "delivery_receiver.py")
            self.children.start(f"receiver-{number}", program, str(port), str(self.folder), self.secret)
        for number, mood in enumerate(self.moods):
            name = f"s{number}"
            if mood:
                (self.folder / f"{name}.mood").write_text(mood)
            url = f"http://127.0.0.1:{self.ports[number % len(self.ports)]}/{name}"
            self.ids[name] = self.subscribers.subscribe(Channel.WEBHOOK, url, "", self.secret).id
        for number in range(DISPATCHERS):
            program = str(HERE / "delivery_dispatcher.py")
            self.children.start(f"dispatcher-{number}", program, self.url, str(self.key), str(LANES))

    def end(self) -> None:
        self.children.end()
        self.engine.dispose()
        embedded.stop(self.data, force=True)

    def tell(self, events: int, subjects: int) -> None:
        """Write the events in batches of one transaction; a batch that failed is written again."""
        drawn = random.Random(1)
        for begin in range(0, events, BATCH):
            wanted = [f"org/m{drawn.randrange(subjects)}" for _ in range(min(BATCH, events - begin))]
            _insist(lambda wanted=wanted: self._write(wanted))  # type: ignore[misc]

    def _write(self, wanted: list[str]) -> None:
        with transaction(self.engine) as session:
            for subject in wanted:
                write_event(session, EventKind.ENTRY_CHANGED, subject, SystemClock().now(), {"platform": "cpu"})

    def kill_database(self) -> None:
        """Kill the server with all its processes, and start it again as its keeper would."""
        pid = int((self.data / "postgres" / "postmaster.pid").read_text().splitlines()[0])
        server = psutil.Process(pid)
        for process in [server, *server.children()]:
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        _insist(lambda: embedded.start(self.data), (DayzeroError, OSError))

    def standings(self) -> dict[str, Standing]:
        known = _insist(self.subscribers.standings)
        return {name: known[subscription] for name, subscription in self.ids.items()}

    def events(self) -> list[tuple[str, str]]:
        """Id and subject of every event, in the order in which they were fanned out."""
        with self.engine.connect() as connection:
            rows = connection.execute(text("SELECT id, subject FROM outbox ORDER BY position"))
            return [(row[0], row[1]) for row in rows]

    def taken(self, name: str) -> list[list[str]]:
        log = self.folder / f"{name}.log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def _insist(what: Callable[[], object], errors: tuple[type[Exception], ...] = (DayzeroError,)) -> object:
    for _ in range(200):
        try:
            return what()
        except errors:
            time.sleep(0.2)
    return what()


def prove(folder: Path, moods: list[str], receivers: int, events: int, subjects: int, kills: int, seed: int) -> Figures:
    """Run it, kill what runs, bring the late ones back, replay what was given up, and hold everything to the promises."""
    figures = Figures(subscribers=len(moods), subjects=subjects)
    figures.moods = dict(Counter(mood.split(" ")[0] or "well" for mood in moods))
    scene = Scene(folder, moods, receivers)
    began_s = time.monotonic()
    try:
        writer = threading.Thread(target=scene.tell, args=(events, subjects))
        writer.start()
        _kill(scene, figures, kills, random.Random(seed))
        writer.join()
        late = {name for name, mood in zip(scene.ids, moods, strict=True) if mood.split(" ")[0] not in BACK_BEFORE_THE_LIMIT}
        _until(scene, lambda standing: standing.pending == 0)
        _hold(scene, figures, dict.fromkeys(scene.ids, late), complete=set(scene.ids) - late)
        for name in late:
            (scene.folder / f"{name}.mood").unlink()
        standings = scene.standings()
        figures.dead_letters = sum(standings[name].dead for name in late)
        assert [standings[name].dead for name in scene.ids if name not in late] == [0] * (len(moods) - len(late))
        figures.replayed = scene.subscribers.replay(None)
        _until(scene, lambda standing: standing.pending == standing.dead == 0)
        _hold(scene, figures, dict.fromkeys(scene.ids, late), complete=set(scene.ids))
    finally:
        scene.end()
    figures.seconds = round(time.monotonic() - began_s, 1)
    figures.told_per_s = round(figures.messages_taken / figures.seconds, 1)
    return figures


def _kill(scene: Scene, figures: Figures, kills: int, drawn: random.Random) -> None:
    receivers = [f"receiver-{number}" for number in range(len(scene.ports))]
    dispatchers = [f"dispatcher-{number}" for number in range(DISPATCHERS)]
    for number in range(kills):
        time.sleep(drawn.uniform(1.0, 4.0))
        what = ("dispatcher", "receiver", "dispatcher", "database")[number % 4]
        if what == "database":
            scene.kill_database()
        else:
            name = drawn.choice(receivers if what == "receiver" else dispatchers)
            scene.children.kill(name)
            if what == "receiver":
                time.sleep(drawn.uniform(0.0, 3.0))  # those that it serves are down for a while
            scene.children.again(name)
        figures.kills[what] += 1


def _until(scene: Scene, over: Callable[[Standing], bool], within_s: float = 3000.0) -> None:
    ends_s = time.monotonic() + within_s
    while True:
        with scene.engine.connect() as connection:
            waiting = connection.execute(text("SELECT count(*) FROM outbox WHERE fanned_out_at IS NULL")).scalar_one()
        standings = scene.standings()
        if waiting == 0 and all(over(one) for one in standings.values()):
            return
        assert time.monotonic() < ends_s, standings
        time.sleep(0.5)


def _hold(scene: Scene, figures: Figures, late: Mapping[str, set[str]], complete: set[str]) -> None:
    """Every complete subscriber has every event; first deliveries are in order a subject; repeats are the same; all verify."""
    known = scene.events()
    figures.events = len(known)
    by_subject: dict[str, list[str]] = {}
    for event_id, subject in known:
        by_subject.setdefault(subject, []).append(event_id)
    figures.messages_taken = figures.duplicates = 0
    for name in scene.ids:
        got = scene.taken(name)
        first: dict[str, str] = {}
        contents: dict[str, str] = {}
        for webhook_id, told_id, subject, verified, content in got:
            assert verified and webhook_id == told_id
            assert contents.setdefault(webhook_id, content) == content
            first.setdefault(webhook_id, subject)
        figures.messages_taken += len(got)
        figures.duplicates += len(got) - len(first)
        if name in complete:
            assert set(first) == {event_id for event_id, _ in known}, name
        if name not in late[name]:
            order: dict[str, list[str]] = {}
            for event_id, subject in first.items():
                order.setdefault(subject, []).append(event_id)
            assert order == by_subject, name
