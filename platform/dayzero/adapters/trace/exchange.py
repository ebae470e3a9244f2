"""What the tracer and its child process exchange through files."""

from dataclasses import dataclass
from enum import StrEnum

from dayzero.domain.operators import Trace, TraceOptions


class Refusal(StrEnum):
    """Why the child could not trace."""

    NOT_INSTALLED = "not_installed"
    UNKNOWN = "unknown"
    BAD_CONFIG = "bad_config"
    NOT_SHARDED = "not_sharded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TraceJob:
    """What the child is asked: a configuration (JSON text), and whether equal layers may be traced once and counted.

    `cpu_s` ends the child even when nobody is left to stop it.
    """

    config: str
    cpu_s: int
    fold_layers: bool = True
    options: TraceOptions = TraceOptions()


@dataclass(frozen=True, slots=True)
class TraceAnswer:
    """What the child answers: a trace, or a refusal with one sentence."""

    trace: Trace | None
    refusal: Refusal | None = None
    message: str = ""
