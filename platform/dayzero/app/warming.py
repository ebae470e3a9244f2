"""What takes seconds to start, started first."""

from collections.abc import Iterator
from contextlib import contextmanager

from dayzero.adapters.trace.tracer import SubprocessTracer
from dayzero.ports.running import Tracer


@contextmanager
def warm_tracer() -> Iterator[Tracer]:
    """A tracer whose child starts now: what it imports takes seconds, in which the caller finds out what to ask."""
    tracer = SubprocessTracer()
    tracer.warm()
    try:
        yield tracer
    finally:
        tracer.end()
