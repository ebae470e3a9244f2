"""A ledger for one command without a database: one release, one adaptation, files in a folder."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import RLock
from uuid import uuid4

from dayzero.adapters.store.artifacts import FolderArtifacts
from dayzero.adapters.store.holding import holds, stale
from dayzero.adapters.store.limits import check_order, document_of, log_line, short_name, within_limit
from dayzero.domain.adaptation import GOING_ON, Adaptation, AdaptationState, Lease
from dayzero.domain.canonical import digest
from dayzero.domain.operators import OperatorManifest
from dayzero.domain.platforms import Stack
from dayzero.domain.release import Release
from dayzero.domain.results import ResultKey, StoredResult
from dayzero.domain.sampling import CallFact
from dayzero.domain.verdict import Check, Measurement
from dayzero.errors import BadInputError, NotFoundError
from dayzero.ports.running import Clock
from dayzero.stages.coverage.manifests import in_force
from dayzero.stages.platforms.sampled import carried, with_samples


class MemoryLedger:
    """ports.ledger.Ledger in memory; it behaves like SqlLedger and forgets everything but the artifacts.

    Safe for threads of one process. `lines` is the log so far.
    """

    def __init__(self, release: Release, adaptation: Adaptation, artifacts: Path, clock: Clock) -> None:
        self._release = release
        self._adaptation = adaptation
        self._artifacts = FolderArtifacts(artifacts)
        self._clock = clock
        self._lock = RLock()
        self._results: dict[ResultKey, StoredResult] = {}
        self._links: dict[str, ResultKey] = {}
        self._checks: dict[tuple[str, str, str], Check] = {}
        self._measurements: dict[tuple[str, str], Measurement] = {}
        self._manifests: list[tuple[OperatorManifest, Stack]] = []
        self.lines: list[str] = []

    def release(self, release_id: str) -> Release:
        """The release, by the id that the adaptation carries; NotFoundError."""
        if release_id != self._adaptation.release_id:
            raise NotFoundError(f"there is no release {release_id}.")
        return self._release

    def adaptation(self, adaptation_id: str) -> Adaptation:
        """The adaptation; NotFoundError."""
        if adaptation_id != self._adaptation.id:
            raise NotFoundError(f"there is no adaptation {adaptation_id}.")
        return self._adaptation

    def claim(self, adaptation_id: str, attempt: int, claimant: str) -> Lease:
        """Take the adaptation for this attempt."""
        lease = Lease(adaptation_id, attempt, short_name(claimant, "a claimant's name"))
        with self._lock:
            row = self.adaptation(adaptation_id)
            if holds(lease, row.state.value, row.attempt, row.claimant):
                return lease
            # What `startable` hands out carries the number of its next start already.
            expected = {row.attempt + 1, row.attempt} - {0}
            if row.state is not AdaptationState.REQUESTED or attempt not in expected:
                raise stale(lease, row.state.value, row.attempt, row.claimant)
            self._adaptation = replace(
                row, state=AdaptationState.RUNNING, attempt=attempt, claimant=claimant, heartbeat_at=self._clock.now(),
                reason=None, finished_at=None,
            )  # fmt: skip
        return lease

    def _fenced(self, lease: Lease) -> Adaptation:
        row = self.adaptation(lease.adaptation_id)
        if not holds(lease, row.state.value, row.attempt, row.claimant):
            raise stale(lease, row.state.value, row.attempt, row.claimant)
        return row

    def heartbeat(self, lease: Lease, stage: str | None) -> None:
        """Say that the attempt lives; a stage of None leaves the stage as it is."""
        with self._lock:
            row = self._fenced(lease)
            stage = row.stage if stage is None else short_name(stage, "a stage's name")
            self._adaptation = replace(row, heartbeat_at=self._clock.now(), stage=stage)

    def find_result(self, key: ResultKey) -> StoredResult | None:
        """The result of that key, or None."""
        return self._results.get(key)

    def put_result(self, key: ResultKey, document: bytes, lease: Lease) -> StoredResult:
        """Store the result once and link it."""
        within_limit(document, f"the result of stage {key.stage}")
        short_name(key.stage, "a stage's name")
        short_name(key.inputs_digest, "an inputs digest")
        with self._lock:
            self._fenced(lease)
            stored = self._results.setdefault(key, StoredResult(str(uuid4()), key, document, self._clock.now()))
            self._links.setdefault(stored.id, key)
        return stored

    def link_result(self, result: StoredResult, lease: Lease) -> None:
        """Every result here was computed for this adaptation and is linked already; NotFoundError for any other."""
        with self._lock:
            self._fenced(lease)
            if result.id not in self._links:
                raise NotFoundError(f"there is no result {result.id}.")

    def linked_results(self, adaptation_id: str) -> Sequence[StoredResult]:
        """The results linked to the adaptation, the oldest link first."""
        if adaptation_id != self._adaptation.id:
            return ()
        return tuple(self._results[key] for key in self._links.values())

    def put_check(self, check: Check, lease: Lease) -> None:
        """Record a check; the same (layer, check, rung) again replaces it."""
        document_of(check, f"check {check.check}")
        with self._lock:
            self._fenced(lease)
            self._checks[check.layer.value, check.check, check.rung] = check

    def put_measurement(self, measurement: Measurement, lease: Lease) -> None:
        """Record a measurement; the same (name, conditions) again replaces it."""
        document_of(measurement, f"measurement {measurement.name}")
        with self._lock:
            self._fenced(lease)
            self._measurements[measurement.name, digest(measurement.conditions)] = measurement

    def put_artifact(self, data: bytes, *, media_type: str, name: str, lease: Lease) -> str:
        """Store evidence in the folder, return its sha256."""
        within_limit(data, f"artifact {name[:80]}")
        short_name(name, "an artifact's name")
        short_name(media_type, "a media type")
        with self._lock:
            self._fenced(lease)
        return self._artifacts.put(data, media_type=media_type, name=name)

    def artifact(self, sha256: str) -> bytes:
        """An artifact's bytes; NotFoundError, IntegrityError."""
        with self._artifacts.open(sha256) as file:
            return file.read()

    def put_manifest(self, manifest: OperatorManifest, stack: Stack) -> None:
        """Record what the platform's stack offers."""
        document_of(manifest, f"the manifest of {manifest.provider}")
        short_name(stack.platform, "a platform's slug")
        with self._lock:
            before = next((told for told, known in self._manifests if known == stack), None)
            self._manifests.insert(0, (carried(manifest, before), stack))

    def add_samples(self, stack: Stack, under: str, facts: Sequence[CallFact]) -> None:
        """Add what calls showed to the manifest of the stack."""
        with self._lock:
            for place, (manifest, known) in enumerate(self._manifests):
                if known == stack:
                    self._manifests[place] = (with_samples(manifest, facts, under), known)
                    return

    def manifest(self, platform: str) -> tuple[OperatorManifest, Stack] | None:
        """The manifest of the platform that holds, with its stack, or None."""
        with self._lock:
            return in_force([pair for pair in self._manifests if pair[1].platform == platform])

    def checks(self, adaptation_id: str) -> Sequence[Check]:
        """The checks, in order of layer, check, rung."""
        if adaptation_id != self._adaptation.id:
            return ()
        return tuple(sorted(self._checks.values(), key=check_order))

    def measurements(self, adaptation_id: str) -> Sequence[Measurement]:
        """The measurements, by name and conditions."""
        if adaptation_id != self._adaptation.id:
            return ()
        return tuple(measurement for _, measurement in sorted(self._measurements.items()))

    def log(self, lease: Lease, message: str) -> None:
        """Append a line to the log."""
        with self._lock:
            self._fenced(lease)
            self.lines.append(log_line(message))

    def finish(self, lease: Lease, state: AdaptationState, reason: str | None) -> Adaptation:
        """End the attempt; nothing can be written with its lease afterwards. BadInputError for a state that is no end."""
        if state in GOING_ON:
            raise BadInputError(f"{state.value} is no end of an adaptation.")
        with self._lock:
            self._adaptation = replace(self._fenced(lease), state=state, reason=reason, finished_at=self._clock.now())
            return self._adaptation
