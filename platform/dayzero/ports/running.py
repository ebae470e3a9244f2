"""What runs things: tracers, runners, builders, the orchestrator, and the clock."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

from dayzero.domain.adaptation import Adaptation
from dayzero.domain.events import Event
from dayzero.domain.operators import Decomposition, OperatorManifest, Trace, TraceOptions
from dayzero.domain.platforms import Stack
from dayzero.domain.runs import RunLimits, RunOutcome, RunRequest
from dayzero.domain.stacks import StackRecipe


class Clock(Protocol):
    """The only source of time."""

    def now(self) -> datetime:
        """The present, in UTC, timezone-aware."""
        ...

    def monotonic_s(self) -> float:
        """Seconds on a clock that never goes back."""
        ...


class Orchestrator(Protocol):
    """What starts and shows flow runs. UnavailableError when it does not answer."""

    def start(self, adaptation: Adaptation) -> str:
        """Start the flow of an adaptation's attempt, idempotent on (id, attempt); returns the run's id."""
        ...

    def cancel(self, adaptation: Adaptation) -> None:
        """Cancel what runs of it; nothing running is no error."""
        ...

    def emit(self, event: Event) -> None:
        """Publish an event where automations see it."""
        ...

    def run_url(self, adaptation: Adaptation) -> str | None:
        """Where a person watches the run, or None."""
        ...


class Tracer(Protocol):
    """Runs an architecture's real code without weights."""

    def trace(self, config: bytes, *, timeout_s: float, options: TraceOptions | None = None) -> Trace:
        """What the options ask for (default: prefill, decode, a training step, collectives) of the configured architecture on
        the meta device, in its own process.

        DependencyError: torch or the modelling library is missing. BlockedError: the architecture is unknown to the library
        or needs remote code. MeasurementError: the code failed to run.
        """
        ...


class OperatorLibrary(Protocol):
    """Where a platform's operator manifest comes from."""

    def manifest(self) -> OperatorManifest:
        """What the library offers."""
        ...

    def decompositions(self) -> Sequence[Decomposition]:
        """Which operators can be made of which others."""
        ...


class Runner(Protocol):
    """Runs observations in isolated processes on the platform."""

    def stack(self) -> Stack:
        """What is installed here."""
        ...

    def run(self, request: RunRequest, limits: RunLimits) -> RunOutcome:
        """Run one observation in its own process with limits and a scrubbed environment; never raises for what the child
        does."""
        ...


class Stacks(Protocol):
    """The stacks that a host can install over its own, and what runs in them."""

    def recipes(self, platform: str) -> Sequence[StackRecipe]:
        """The platform's stacks in the order in which a release tries them; BadInputError for a lock that is none."""
        ...

    def library(self, recipe: StackRecipe) -> str | None:
        """The modelling library of a stack, with its version."""
        ...

    def model_types(self, recipe: StackRecipe) -> frozenset[str] | None:
        """Which model types that library knows, read as data; None where there is none. A DayzeroError says why not."""
        ...

    def tracer(self, recipe: StackRecipe) -> Tracer:
        """A tracer in that stack, which is installed first where it is not; errors as pip's."""
        ...

    def runner(self, recipe: StackRecipe) -> Runner:
        """A runner in that stack, likewise."""
        ...


class ImageBuilder(Protocol):
    """Builds container images."""

    def build(self, context: Path, tag: str) -> str:
        """Build and return the image digest; UnavailableError when no engine answers."""
        ...
