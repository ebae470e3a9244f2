"""One contract for both ledgers: in PostgreSQL and in memory."""

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dayzero.adapters.store import limits
from dayzero.adapters.store.artifacts import FolderArtifacts
from dayzero.adapters.store.catalog import SqlCatalog
from dayzero.adapters.store.ledger import SqlLedger
from dayzero.adapters.store.memory_ledger import MemoryLedger
from dayzero.adapters.store.watch_book import SqlWatchBook
from dayzero.domain.adaptation import Adaptation, AdaptationState, Lease, Purpose
from dayzero.domain.operators import OperatorManifest, OperatorSupport, SupportKind
from dayzero.domain.platforms import Stack
from dayzero.domain.results import ResultKey, result_key
from dayzero.domain.sampling import CallFact
from dayzero.domain.verdict import CheckLayer, Grade, Measurement, Mode, Verdict
from dayzero.errors import BadInputError, IntegrityError, NotFoundError, StaleAttemptError
from dayzero.ports.ledger import Ledger
from store_nouns import DAY_ZERO, SteppedClock, check, release

pytestmark = pytest.mark.postgres


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture(params=["postgres", "memory"])
def made(request: pytest.FixtureRequest, tmp_path: Path, clock: SteppedClock) -> tuple[Ledger, str, Callable[[Lease], object]]:
    """A ledger, the id of a requested adaptation, and how to end it."""
    if request.param == "memory":
        adaptation = Adaptation(
            "a1", Purpose.ADAPT, "r1", release().content_id, "org/model", "cpu", Mode.INFERENCE,
            AdaptationState.REQUESTED, 0, DAY_ZERO,
        )  # fmt: skip
        memory = MemoryLedger(release(), adaptation, tmp_path / "artifacts", clock)
        return memory, "a1", lambda lease: memory.finish(lease, AdaptationState.DONE, None)
    engine = request.getfixturevalue("engine")
    (adaptation_id,) = SqlWatchBook(engine, clock).record_release(release(), ["cpu"]).adaptations
    catalog = SqlCatalog(engine, clock)
    ledger = SqlLedger(engine, clock, FolderArtifacts(tmp_path / "artifacts"))
    return ledger, adaptation_id, lambda lease: catalog.finish(lease, AdaptationState.DONE, None, None)


@pytest.fixture
def ledger(made: tuple[Ledger, str, object]) -> Ledger:
    return made[0]


@pytest.fixture
def lease(made: tuple[Ledger, str, object]) -> Lease:
    return made[0].claim(made[1], 1, "run")


def test_claims(made: tuple[Ledger, str, object], clock: SteppedClock) -> None:
    ledger, adaptation_id, _ = made
    for attempt in (-1, 0, 2, 10**30):
        with pytest.raises(StaleAttemptError):
            ledger.claim(adaptation_id, attempt, "run")
    lease = ledger.claim(adaptation_id, 1, "run")
    assert ledger.claim(adaptation_id, 1, "run") == lease
    with pytest.raises(StaleAttemptError, match="attempt 1 of run holds it"):
        ledger.claim(adaptation_id, 1, "another")
    clock.forward(5)
    ledger.heartbeat(lease, "inspect")
    ledger.heartbeat(lease, None)
    found = ledger.adaptation(adaptation_id)
    assert (found.state, found.stage, found.heartbeat_at) == (AdaptationState.RUNNING, "inspect", clock.now())
    assert ledger.release(found.release_id) == release()
    for unknown in (ledger.release, ledger.adaptation):
        with pytest.raises(NotFoundError):
            unknown("nothing")
    with pytest.raises(NotFoundError):
        ledger.claim("nothing", 1, "run")


def test_results_are_stored_once(ledger: Ledger, lease: Lease) -> None:
    key = result_key("inspect", 1, {"config": "digest"})
    assert ledger.find_result(key) is None
    first = ledger.put_result(key, b'{"layers":1}', lease)
    again = ledger.put_result(key, b'{"layers":2}', lease)
    assert again == first == ledger.find_result(key)
    ledger.link_result(first, lease)
    other = ledger.put_result(ResultKey("plan", 1, key.inputs_digest), b"\x00 any bytes \xff", lease)
    assert ledger.linked_results(lease.adaptation_id) == (first, other)
    assert [result.reused for result in ledger.linked_results(lease.adaptation_id)] == [False, False]
    assert ledger.linked_results("nothing") == ()


def test_checks_and_measurements_are_replaced(ledger: Ledger, lease: Lease) -> None:
    for verdict in (Verdict.ERROR, Verdict.PASS):
        ledger.put_check(check(verdict), lease)
    ledger.put_check(check(Verdict.NOT_RUN, "aten.mm", CheckLayer.OPERATOR_COVERAGE), lease)
    assert ledger.checks(lease.adaptation_id) == (
        check(Verdict.NOT_RUN, "aten.mm", CheckLayer.OPERATOR_COVERAGE),
        check(Verdict.PASS),
    )
    for value in (0.5, 1e-7):
        ledger.put_measurement(Measurement("ttft_s", value, "s", {"tokens": 16}), lease)
    other = Measurement("ttft_s", 2.0, "s", {"tokens": 32, "dtype": "bfloat16"}, samples=3)
    ledger.put_measurement(other, lease)
    found = ledger.measurements(lease.adaptation_id)
    assert sorted(found, key=lambda each: each.value) == [Measurement("ttft_s", 1e-7, "s", {"tokens": 16}), other]
    with pytest.raises(BadInputError, match="no JSON form"):
        ledger.put_measurement(Measurement("ttft_s", float("nan"), "s"), lease)


def test_artifacts(ledger: Ledger, lease: Lease, tmp_path: Path) -> None:
    sha256 = ledger.put_artifact(b"evidence", media_type="text/plain", name="log.txt", lease=lease)
    assert sha256 == hashlib.sha256(b"evidence").hexdigest()
    assert ledger.put_artifact(b"evidence", media_type="text/plain", name="again.txt", lease=lease) == sha256
    assert ledger.artifact(sha256) == b"evidence"
    for wrong in ("0" * 64, "../../etc/passwd", "", sha256.upper()):
        with pytest.raises(NotFoundError):
            ledger.artifact(wrong)
    (tmp_path / "artifacts" / sha256[:2] / sha256).write_bytes(b"evidencf")
    with pytest.raises(IntegrityError, match="other bytes"):
        ledger.artifact(sha256)


def test_the_newest_manifest(ledger: Ledger) -> None:
    assert ledger.manifest("cpu") is None
    stacks = [Stack("cpu", {"torch": version}) for version in ("2.12", "2.13")]
    operators = (OperatorSupport("aten.mm.default", SupportKind.NATIVE, Grade.MEASURED),)
    manifests = [OperatorManifest("cpu", "torch", stack.components["torch"], operators) for stack in stacks]
    for manifest, stack in zip(manifests, stacks, strict=True):
        ledger.put_manifest(manifest, stack)
    assert ledger.manifest("cpu") == (manifests[1], stacks[1])
    ledger.put_manifest(manifests[0], stacks[0])
    assert ledger.manifest("cpu") == (manifests[0], stacks[0])
    assert ledger.manifest("h100") is None


def fact(operator: str, shape_class: str = "Tx8") -> CallFact:
    return CallFact(operator, ("float32",), shape_class, Verdict.PASS, None, 5, 0, "normal", 1e-8, 1e-6)


def test_samples_are_added_and_survive_what_is_told_anew(ledger: Ledger) -> None:
    stack, other = Stack("cpu", {"torch": "2.13"}), Stack("cpu", {"torch": "2.14"})
    ledger.add_samples(stack, "key", (fact("aten.mm.default"),))
    assert ledger.manifest("cpu") is None, "nobody told of that stack"
    operators = tuple(
        OperatorSupport(f"aten.{name}.default", SupportKind.NATIVE, Grade.DECLARED) for name in ("exp", "mm", "sin")
    )
    told = OperatorManifest("cpu", "torch", "2.13", operators)
    ledger.put_manifest(told, stack)
    ledger.add_samples(stack, "key", (fact("aten.mm.default"),))
    ledger.add_samples(stack, "key", (fact("aten.exp.default"), fact("aten.mm.default")))
    ledger.put_manifest(told, stack)
    found = ledger.manifest("cpu")
    assert found is not None and found[1] == stack
    assert [one.operator for one in found[0].sampled] == ["aten.exp.default", "aten.mm.default"]
    assert [one.grade for one in found[0].operators] == [Grade.MEASURED, Grade.MEASURED, Grade.DECLARED]
    ledger.put_manifest(told, other)
    assert ledger.manifest("cpu") == (told, other), "another stack has to show it itself"


def test_samples_of_workers_at_once_are_all_kept(made: tuple[Ledger, str, object]) -> None:
    ledger, stack = made[0], Stack("cpu", {"torch": "2.13"})
    ledger.put_manifest(OperatorManifest("cpu", "torch", "2.13", ()), stack)
    with ThreadPoolExecutor(4) as workers:
        list(workers.map(lambda name: ledger.add_samples(stack, "key", (fact(f"aten.op{name}.default"),)), range(12)))
    found = ledger.manifest("cpu")
    assert found is not None and len(found[0].sampled) == 12


def test_an_ended_attempt_writes_nothing(made: tuple[Ledger, str, Callable[[Lease], object]], lease: Lease) -> None:
    ledger, _, end = made
    key = result_key("inspect", 1)
    result = ledger.put_result(key, b"{}", lease)
    end(lease)
    for write in (
        lambda: ledger.heartbeat(lease, "late"),
        lambda: ledger.put_result(result_key("late", 1), b"{}", lease),
        lambda: ledger.link_result(result, lease),
        lambda: ledger.put_check(check(), lease),
        lambda: ledger.put_measurement(Measurement("late_s", 1.0, "s"), lease),
        lambda: ledger.put_artifact(b"late", media_type="text/plain", name="late", lease=lease),
        lambda: ledger.log(lease, "late"),
    ):
        with pytest.raises(StaleAttemptError):
            write()
    assert ledger.find_result(result_key("late", 1)) is None
    with pytest.raises(NotFoundError):
        ledger.artifact(hashlib.sha256(b"late").hexdigest())


def test_absurd_sizes_are_refused(ledger: Ledger, lease: Lease, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_DOCUMENT_BYTES", 1000)
    for write in (
        lambda: ledger.put_result(result_key("inspect", 1), bytes(1001), lease),
        lambda: ledger.put_artifact(bytes(1001), media_type="text/plain", name="big", lease=lease),
        lambda: ledger.put_artifact(b"", media_type="text/plain", name="n" * 2000, lease=lease),
        lambda: ledger.put_result(ResultKey("s" * 2000, 1, "d"), b"{}", lease),
        lambda: ledger.put_check(check(name="n" * 2000), lease),
        lambda: ledger.heartbeat(lease, "s" * 2000),
    ):
        with pytest.raises(BadInputError):
            write()
    ledger.log(lease, "x" * 1_000_000)
    assert ledger.linked_results(lease.adaptation_id) == ()
