"""What a pipeline step reads and writes."""

from collections.abc import Sequence
from typing import Protocol

from dayzero.domain.adaptation import Adaptation, Lease
from dayzero.domain.operators import OperatorManifest
from dayzero.domain.platforms import Stack
from dayzero.domain.release import Release
from dayzero.domain.results import ResultKey, StoredResult
from dayzero.domain.sampling import CallFact
from dayzero.domain.verdict import Check, Measurement


class Ledger(Protocol):
    """What a pipeline step reads and writes: in Postgres on the control plane, over HTTP on a worker, in memory for one
    command. Every write that carries a lease raises StaleAttemptError when a newer attempt holds the adaptation."""

    def release(self, release_id: str) -> Release:
        """A release by its id; NotFoundError."""
        ...

    def adaptation(self, adaptation_id: str) -> Adaptation:
        """An adaptation by its id; NotFoundError."""
        ...

    def claim(self, adaptation_id: str, attempt: int, claimant: str) -> Lease:
        """Take the adaptation for this attempt; claiming again with the same claimant returns the same lease."""
        ...

    def heartbeat(self, lease: Lease, stage: str | None) -> None:
        """Say that the attempt lives, and at which stage it is."""
        ...

    def find_result(self, key: ResultKey) -> StoredResult | None:
        """The result of that key, or None."""
        ...

    def put_result(self, key: ResultKey, document: bytes, lease: Lease) -> StoredResult:
        """Store the result once and link it to the adaptation and its release; an existing key keeps its document."""
        ...

    def link_result(self, result: StoredResult, lease: Lease) -> None:
        """Link a found result to the adaptation, as re-used."""
        ...

    def linked_results(self, adaptation_id: str) -> Sequence[StoredResult]:
        """The results linked to an adaptation, the oldest link first."""
        ...

    def put_check(self, check: Check, lease: Lease) -> None:
        """Record a check; the same (adaptation, layer, check, rung) again replaces the earlier attempt's."""
        ...

    def put_measurement(self, measurement: Measurement, lease: Lease) -> None:
        """Record a measurement; the same (adaptation, name, conditions) again replaces it."""
        ...

    def put_artifact(self, data: bytes, *, media_type: str, name: str, lease: Lease) -> str:
        """Store evidence, link it to the adaptation, return its sha256."""
        ...

    def artifact(self, sha256: str) -> bytes:
        """An artifact's bytes; NotFoundError."""
        ...

    def put_manifest(self, manifest: OperatorManifest, stack: Stack) -> None:
        """Record what the platform's stack offers, under the stack's fingerprint."""
        ...

    def add_samples(self, stack: Stack, under: str, facts: Sequence[CallFact]) -> None:
        """Add what calls showed on drawn inputs to the manifest of the stack, under their key (stages.platforms.sampled), one
        writer after the other. Where nobody told a manifest of that stack, nothing is kept."""
        ...

    def manifest(self, platform: str) -> tuple[OperatorManifest, Stack] | None:
        """The newest manifest of the platform with its stack, or None when no worker has told yet."""
        ...

    def checks(self, adaptation_id: str) -> Sequence[Check]:
        """The checks recorded for an adaptation, in order of layer, check, rung."""
        ...

    def measurements(self, adaptation_id: str) -> Sequence[Measurement]:
        """The measurements recorded for an adaptation."""
        ...

    def log(self, lease: Lease, message: str) -> None:
        """Append a line to the adaptation's log."""
        ...
