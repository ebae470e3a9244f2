"""The ledger over HTTP, against the SQL ledger on a real PostgreSQL behind a real server."""

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import uvicorn
from sqlalchemy import Engine

from dayzero.adapters.host.clock import SystemClock
from dayzero.adapters.processes.ports import free_port
from dayzero.adapters.remote.ledger import HttpLedger
from dayzero.adapters.store.artifacts import FolderArtifacts
from dayzero.adapters.store.catalog import SqlCatalog
from dayzero.adapters.store.ledger import SqlLedger
from dayzero.adapters.store.watch_book import SqlWatchBook
from dayzero.adapters.store.workforce import SqlWorkforce
from dayzero.domain.adaptation import Adaptation, AdaptationState, Lease
from dayzero.domain.operators import OperatorManifest
from dayzero.domain.platforms import Stack
from dayzero.domain.release import FileRole, HubKind, Release, ReleaseStage, RepoFile, content_id_of
from dayzero.domain.results import result_key
from dayzero.domain.sampling import CallFact
from dayzero.domain.verdict import Check, CheckLayer, Grade, Measurement, Verdict
from dayzero.errors import BadInputError, BlockedError, NotFoundError, StaleAttemptError, UnavailableError
from dayzero.web.door import create_app

pytestmark = [pytest.mark.postgres]


@dataclass(frozen=True)
class Plane:
    ledger: SqlLedger
    workforce: SqlWorkforce


@dataclass(frozen=True)
class House:
    """A control plane with one adaptation a platform, and its address."""

    url: str
    plane: Plane
    catalog: SqlCatalog
    adaptations: dict[str, Adaptation]
    ledgers: list[HttpLedger] = field(default_factory=list)

    def ledger(self, platform: str = "cpu", scope: str = "worker", valid_s: float = 600.0) -> HttpLedger:
        token, _ = self.plane.workforce.issue_token(platform, scope, valid_s)
        self.ledgers.append(HttpLedger(self.url, token, retries=2))
        return self.ledgers[-1]


@pytest.fixture
def house(engine: Engine, tmp_path: Path) -> Iterator[House]:
    clock = SystemClock()
    plane = Plane(SqlLedger(engine, clock, FolderArtifacts(tmp_path / "artifacts")), SqlWorkforce(engine, clock))
    files = (RepoFile("model.safetensors", 8, FileRole.WEIGHTS, sha256="a" * 64),)
    release = Release(
        HubKind.HUGGING_FACE,
        "demo/tiny",
        "b" * 40,
        ReleaseStage.WEIGHTS,
        files,
        content_id_of(files),
        published_at=datetime.now(UTC),
    )
    SqlWatchBook(engine, clock).record_release(release, ("cpu", "h100"))
    catalog = SqlCatalog(engine, clock)
    adaptations = {adaptation.platform: adaptation for adaptation in catalog.adaptations()}
    with served(plane) as url:
        house = House(url, plane, catalog, adaptations)
        yield house
        for ledger in house.ledgers:
            ledger.close()


class served:
    """Serve a control plane's door in a thread."""

    def __init__(self, plane: Plane) -> None:
        self.port = free_port("127.0.0.1")
        config = uvicorn.Config(
            create_app(plane), host="127.0.0.1", port=self.port, log_level="error", ws="none", lifespan="off"
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self) -> str:
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        return f"http://127.0.0.1:{self.port}"

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(10)


def a_check(verdict: Verdict = Verdict.PASS) -> Check:
    return Check(
        CheckLayer.PRECISION,
        "precision.layers",
        "tp1",
        verdict,
        Grade.MEASURED,
        "within",
        0.5,
        2.0,
        "ratio",
        7,
        numbers={"x": 1},
    )


def test_what_is_written_over_http_is_in_the_database(house: House) -> None:
    ledger = house.ledger()
    adaptation = house.adaptations["cpu"]
    assert ledger.adaptation(adaptation.id) == house.plane.ledger.adaptation(adaptation.id)
    assert ledger.release(adaptation.release_id) == house.plane.ledger.release(adaptation.release_id)
    lease = ledger.claim(adaptation.id, 1, "run-1")
    assert ledger.claim(adaptation.id, 1, "run-1") == lease
    ledger.heartbeat(lease, "fetch")
    ledger.log(lease, "fetch: «ünïcode»")
    key = result_key("structure", 1, "config")
    assert ledger.find_result(key) is None
    stored = ledger.put_result(key, b'{"a":1}', lease)
    assert ledger.put_result(key, b'{"a":2}', lease).document == b'{"a":1}'
    assert ledger.find_result(key) == house.plane.ledger.find_result(key)
    ledger.link_result(stored, lease)
    assert [result.id for result in ledger.linked_results(adaptation.id)] == [stored.id]
    ledger.put_check(a_check(Verdict.FAIL), lease)
    ledger.put_check(a_check(), lease)
    assert list(ledger.checks(adaptation.id)) == [a_check()]
    measured = Measurement("ttft", 0.25, "s", {"tokens": 8}, 3)
    ledger.put_measurement(measured, lease)
    assert list(ledger.measurements(adaptation.id)) == [measured]
    now = house.plane.ledger.adaptation(adaptation.id)
    assert (now.state, now.stage, now.claimant) == (AdaptationState.RUNNING, "fetch", "run-1")
    assert [line for _, _, line in house.catalog.log_lines(adaptation.id)] == ["fetch: «ünïcode»"]


def test_artifacts_come_back_whole_and_in_parts(house: House) -> None:
    ledger = house.ledger()
    lease = ledger.claim(house.adaptations["cpu"].id, 1, "run-1")
    data = bytes(range(256)) * 4096
    sha256 = ledger.put_artifact(data, media_type="application/json", name="a name/with ünicode", lease=lease)
    assert sha256 == hashlib.sha256(data).hexdigest()
    assert ledger.artifact(sha256) == data
    headers = {"Authorization": ledger._client.headers["Authorization"], "Range": "bytes=10-19"}
    part = httpx.get(f"{house.url}/v1/ledger/artifacts/{sha256}", headers=headers)
    assert (part.status_code, part.content) == (206, data[10:20])
    beyond = httpx.get(f"{house.url}/v1/ledger/artifacts/{sha256}", headers={**headers, "Range": f"bytes={len(data) + 1}-"})
    assert beyond.status_code == 416
    with pytest.raises(NotFoundError):
        ledger.artifact("0" * 64)


def test_manifest_and_heartbeat_of_a_worker(house: House) -> None:
    ledger = house.ledger()
    manifest = OperatorManifest("cpu", "torch", "2.13", ())
    stack = Stack("cpu", {"torch": "2.13"})
    assert ledger.manifest("cpu") is None
    ledger.put_manifest(manifest, stack)
    assert ledger.manifest("cpu") == (manifest, stack)
    fact = CallFact("aten.mm.default", ("float32",), "Tx8", Verdict.FAIL, "it is wrong", 5, 0, "normal", 0.5, 1e-6)
    ledger.add_samples(stack, "key", (fact,))
    told = ledger.manifest("cpu")
    assert told is not None and (told[0].sampled, told[0].sampled_under) == ((fact,), "key")
    ledger.worker_seen("8d3c", "cpu", stack.fingerprint, 2)
    assert house.plane.workforce.workers_alive("cpu", 60) == 1


def test_a_stale_attempt_writes_nothing(house: House) -> None:
    ledger = house.ledger()
    adaptation = house.adaptations["cpu"]
    lease = ledger.claim(adaptation.id, 1, "run-1")
    stale = Lease(adaptation.id, 1, "somebody else")
    writes: list[Callable[[Lease], object]] = [
        lambda stale: ledger.heartbeat(stale, None),
        lambda stale: ledger.put_result(result_key("x", 1), b"{}", stale),
        lambda stale: ledger.put_check(a_check(), stale),
        lambda stale: ledger.put_measurement(Measurement("x", 1.0, "s"), stale),
        lambda stale: ledger.put_artifact(b"x", media_type="text/plain", name="x", lease=stale),
        lambda stale: ledger.log(stale, "x"),
    ]
    for write in writes:
        with pytest.raises(StaleAttemptError):
            write(stale)
    with pytest.raises(StaleAttemptError):
        ledger.claim(adaptation.id, 1, "somebody else")
    house.catalog.cancel(adaptation.id)
    with pytest.raises(StaleAttemptError):
        ledger.heartbeat(lease, None)
    assert not ledger.checks(adaptation.id)
    assert not ledger.linked_results(adaptation.id)


def test_a_token_reaches_only_its_platform(house: House) -> None:
    mine, other = house.ledger("cpu"), house.adaptations["h100"]
    foreign = Lease(other.id, 1, "run-1")
    for refused in (
        lambda: mine.adaptation(other.id),
        lambda: mine.claim(other.id, 1, "run-1"),
        lambda: mine.heartbeat(foreign, None),
        lambda: mine.put_check(a_check(), foreign),
        lambda: mine.put_artifact(b"x", media_type="text/plain", name="x", lease=foreign),
        lambda: mine.checks(other.id),
        lambda: mine.linked_results(other.id),
        lambda: mine.manifest("h100"),
        lambda: mine.put_manifest(OperatorManifest("h100", "x", "1", ()), Stack("h100", {})),
        lambda: mine.add_samples(Stack("h100", {}), "key", ()),
        lambda: mine.worker_seen("w", "h100", "f", 1),
    ):
        with pytest.raises(BlockedError, match="cpu"):
            refused()
    assert house.plane.ledger.adaptation(other.id).state is AdaptationState.REQUESTED


@pytest.mark.parametrize(("scope", "valid_s"), [("reader", 600.0), ("worker", 0.001)])
def test_other_scopes_and_expired_tokens_are_refused(house: House, scope: str, valid_s: float) -> None:
    ledger = house.ledger("cpu", scope, valid_s)
    time.sleep(0.01)
    with pytest.raises(BlockedError, match="token"):
        ledger.manifest("cpu")


def test_no_token_and_nonsense_are_refused_in_one_sentence(house: House) -> None:
    assert httpx.get(f"{house.url}/v1/ledger/manifest/cpu").status_code == 401
    assert httpx.get(f"{house.url}/v1/ledger/manifest/cpu", headers={"Authorization": "Basic x"}).status_code == 401
    token, _ = house.plane.workforce.issue_token("cpu", "worker", 60)
    headers = {"Authorization": f"Bearer {token}"}
    for body in (b"", b"[]", b"{", b'{"key":{},"document":"{}"}', b"\xff\xfe"):
        answer = httpx.put(f"{house.url}/v1/ledger/results", content=body, headers=headers)
        assert (answer.status_code, answer.json()["kind"]) == (422, "BadInputError")
    lease = house.ledger().claim(house.adaptations["cpu"].id, 1, "run-1")
    with pytest.raises(BadInputError, match="JSON"):
        house.ledger().put_result(result_key("x", 1), b"not json", lease)
    with pytest.raises(NotFoundError):
        house.ledger().adaptation("../../etc/passwd")
    assert httpx.get(f"{house.url}/healthz").json() == {"status": "ok"}


def test_a_failure_inside_shows_no_insides(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: SqlLedger, platform: str) -> None:
        raise RuntimeError("postgresql://dayzero:secret@127.0.0.1/dayzero")

    monkeypatch.setattr(SqlLedger, "manifest", broken)
    with pytest.raises(UnavailableError) as caught:
        house.ledger().manifest("cpu")
    assert "secret" not in str(caught.value)


def test_a_control_plane_that_is_down_is_unavailable() -> None:
    with pytest.raises(UnavailableError, match="does not answer"):
        HttpLedger(f"http://127.0.0.1:{free_port('127.0.0.1')}", "token", retries=2).manifest("cpu")
