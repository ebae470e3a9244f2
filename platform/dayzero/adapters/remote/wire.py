"""What travels between a worker and the control plane: one noun a request body, JSON by dayzero.codec."""

from dataclasses import dataclass

from dayzero.domain.adaptation import Lease
from dayzero.domain.operators import OperatorManifest
from dayzero.domain.platforms import Stack
from dayzero.domain.results import ResultKey, StoredResult
from dayzero.domain.sampling import CallFact
from dayzero.domain.verdict import Check, Measurement
from dayzero.errors import (
    BadInputError,
    BlockedError,
    DayzeroError,
    DependencyError,
    IntegrityError,
    MeasurementError,
    NotFoundError,
    StaleAttemptError,
    UnavailableError,
)

MAX_JSON_BYTES = 128 * 2**20
MAX_ARTIFACT_BYTES = 512 * 2**20
MAX_LOG_BYTES = 64 * 2**10
PREFIX = "/v1/ledger"


@dataclass(frozen=True, slots=True)
class Claim:
    """POST adaptations/{id}/claim."""

    attempt: int
    claimant: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """POST heartbeats."""

    lease: Lease
    stage: str | None


@dataclass(frozen=True, slots=True)
class WireResult:
    """A stored result; its document is canonical JSON, so it travels as text."""

    id: str
    key: ResultKey
    document: str
    created_at: str
    reused: bool
    first_attempt: int | None = None
    last_attempt: int | None = None


@dataclass(frozen=True, slots=True)
class NewResult:
    """PUT results."""

    key: ResultKey
    document: str
    lease: Lease


@dataclass(frozen=True, slots=True)
class ResultLink:
    """PUT links: the result that is stored under that key."""

    key: ResultKey
    lease: Lease


@dataclass(frozen=True, slots=True)
class FoundResult:
    """Answer of results/find; None: there is none."""

    result: WireResult | None


@dataclass(frozen=True, slots=True)
class NewCheck:
    """PUT checks."""

    check: Check
    lease: Lease


@dataclass(frozen=True, slots=True)
class NewMeasurement:
    """PUT measurements."""

    measurement: Measurement
    lease: Lease


@dataclass(frozen=True, slots=True)
class Offer:
    """PUT manifest, and the answer of manifest/{platform}."""

    manifest: OperatorManifest
    stack: Stack


@dataclass(frozen=True, slots=True)
class NewSamples:
    """PUT manifest/samples."""

    stack: Stack
    under: str
    facts: tuple[CallFact, ...]


@dataclass(frozen=True, slots=True)
class KnownOffer:
    """Answer of manifest/{platform}; None: no worker has told yet."""

    offer: Offer | None


@dataclass(frozen=True, slots=True)
class LogLine:
    """POST log."""

    lease: Lease
    message: str


@dataclass(frozen=True, slots=True)
class Alive:
    """POST workers: a worker says that it lives."""

    worker_id: str
    platform: str
    stack_fingerprint: str
    devices: int


@dataclass(frozen=True, slots=True)
class StoredArtifact:
    """Answer of POST artifacts."""

    sha256: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Every answer that is not 2xx: the kind of error, its sentence and its remedy."""

    kind: str
    message: str
    remedy: str | None = None


STATUS: dict[type[DayzeroError], int] = {
    StaleAttemptError: 409,
    NotFoundError: 404,
    BlockedError: 423,
    IntegrityError: 422,
    BadInputError: 422,
    UnavailableError: 503,
    DependencyError: 502,
    MeasurementError: 500,
    DayzeroError: 500,
}
"""HTTP status by kind of error; the kind travels in the body, so that the other side raises the same."""

KINDS: dict[str, type[DayzeroError]] = {kind.__name__: kind for kind in STATUS}


def to_wire(stored: StoredResult) -> WireResult:
    """A stored result as it travels."""
    return WireResult(
        stored.id, stored.key, stored.document.decode(), stored.created_at.isoformat(), stored.reused,
        stored.first_attempt, stored.last_attempt,
    )  # fmt: skip
