"""Baselines: what the references say of one input, recorded once and named by what it was computed from."""

from collections.abc import Mapping
from dataclasses import dataclass

from dayzero.domain.canonical import digest
from dayzero.domain.observations import TensorError


@dataclass(frozen=True, slots=True)
class BaselineOf:
    """What a baseline was computed from: equal ones are the same baseline.

    `content_id` is the release's; `inputs_digest` that of the token ids; `versions` those of whatever computes the reference.
    """

    kind: str
    content_id: str
    inputs_digest: str
    tokens: int
    native_dtype: str
    reference_dtype: str
    method: str
    versions: Mapping[str, str]

    @property
    def name(self) -> str:
        """The sha256 that names it."""
        return digest(self)


@dataclass(frozen=True, slots=True)
class LayerStatistics:
    """One layer's output in higher precision (over all its elements), the native dtype's error of it, and whether the tensors
    themselves were kept."""

    index: int
    module: str
    rms: float | None
    max_abs: float | None
    native: TensorError
    kept_bytes: int


@dataclass(frozen=True, slots=True)
class Baseline:
    """A recorded baseline. `layers` belong to one of kind *layers*, the likelihoods (nats a token) to one of kind *logits*."""

    of: BaselineOf
    model: str
    recorded_at: str
    layers: tuple[LayerStatistics, ...] = ()
    nll_reference: float | None = None
    nll_native: float | None = None
    kept_bytes: int = 0
    observed_s: float = 0.0


@dataclass(frozen=True, slots=True)
class BaselinesRecorded:
    """What one run recorded."""

    baselines: tuple[Baseline, ...]
