"""Which modules of a model keep their precision while the others give it up."""

from dataclasses import dataclass

POLICY_SCHEMA = "dayzero.precision-policy/1"


@dataclass(frozen=True, slots=True)
class Promotion:
    """A module that keeps its precision, and the divergence (nats a token) that it causes when it alone gives it up."""

    module: str
    alone: float | None


@dataclass(frozen=True, slots=True)
class PrecisionPolicy:
    """A file that runners and bundles read: every linear module and every group of experts computes by `scheme`, but those that
    are `promoted`. None promoted: the scheme everywhere.

    `scheme` is int8 or fp8_e4m3 (weights and activations, one scale a matrix; promoted modules compute in the native dtype) or
    native (the native dtype; promoted modules compute in the higher one).
    """

    scheme: str
    promoted: tuple[Promotion, ...] = ()
    schema: str = POLICY_SCHEMA


@dataclass(frozen=True, slots=True)
class Tried:
    """One set of promoted modules that was measured: how many, and the divergence from the higher precision (nats a token)."""

    promoted: tuple[str, ...]
    divergence: float | None
    meets: bool


@dataclass(frozen=True, slots=True)
class SensitiveObserved:
    """A search for the fewest promotions that keep the divergence within the limit. `policy` None: not even all of them do.

    `limit` is factor × the larger of the native dtype's own divergence and the dtype's limit; `without` is the divergence with
    the scheme everywhere; `tried` every measured set in order, `minimal` that none of the promoted can be left out.
    """

    native_dtype: str
    reference_dtype: str
    scheme: str
    text: str
    token_source: str
    tokens: int
    modules: int
    limit: float
    divergence_native: float | None
    without: float | None
    policy: PrecisionPolicy | None
    reached: float | None
    minimal: bool
    alone: tuple[Promotion, ...]
    tried: tuple[Tried, ...]
    custom_operators: tuple[str, ...] = ()
    observed_s: float = 0.0
