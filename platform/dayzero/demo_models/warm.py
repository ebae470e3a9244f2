"""Fill the compiler's cache for the demo's models, so that compiling is a part of installation.

Nothing observed here is kept: the demo observes again, and only the compiler finds its own work.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from dayzero.adapters.runners.isolated import SubprocessRunner
from dayzero.codec import load
from dayzero.domain.observations import LayerErrors
from dayzero.domain.runs import Observation, RunEnd, RunLimits, RunRequest

FAULTS: dict[str, tuple[str, ...]] = {"llama-tiny": ("planted-fault:seed=1",)}
"""Models that the demo runs with a wrong operator, which is compiled too."""
LIMITS = RunLimits(timeout_s=900.0)


def warm(models: dict[str, Path], cache: Path) -> Iterator[str]:
    """Run LAYERS of each model, with its fault and without; one line each, which says so when a run did not end well."""
    with tempfile.TemporaryDirectory(prefix="dayzero-warm-") as work:
        runner = SubprocessRunner(Path(work), compile_cache=cache)
        try:
            for kind, folder in models.items():
                for faults in ((), FAULTS[kind]) if kind in FAULTS else ((),):
                    yield _run(runner, kind, folder, faults)
        finally:
            runner.close()


def _run(runner: SubprocessRunner, kind: str, folder: Path, faults: tuple[str, ...]) -> str:
    request = RunRequest(Observation.LAYERS, "cpu", str(folder.resolve()), custom_operators=faults, options={"compile": True})
    began = time.monotonic()
    outcome = runner.run(request, LIMITS)
    named = " with ".join((kind, *faults))
    if outcome.end is not RunEnd.COMPLETED:
        return f"{named} is not compiled ({outcome.reason}); the demo will try it itself"
    path = load(LayerErrors, outcome.document).target_path
    return f"{named}: {path}, {time.monotonic() - began:.0f} s"
