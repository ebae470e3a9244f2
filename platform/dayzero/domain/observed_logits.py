"""How near logits are to their reference where it matters."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogitAgreement:
    """The k largest logits of the reference at each position: their relative error ‖error‖ / ‖logits‖ and the share of them
    that is among the k largest of the target and of the native reference too; means over positions."""

    k: int
    error_target: float | None
    error_native: float | None
    overlap_target: float | None
    overlap_native: float | None
