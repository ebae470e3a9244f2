"""What a model needs of operators and, for a platform, how that is covered, for one command."""

from dayzero.app.local import LocalWork, local_work
from dayzero.domain.operators import CoverageReport, OperatorInventory, TraceOptions
from dayzero.ports.running import Tracer
from dayzero.settings import Settings
from dayzero.steps import prestaging


def operators_of(
    settings: Settings, model: str, platform: str | None, options: TraceOptions, tracer: Tracer
) -> tuple[LocalWork, OperatorInventory, CoverageReport | None]:
    """The inventory of a model and its coverage on the platform (None: no platform was asked for)."""
    work = local_work(settings, model, platform or "cpu", tracer)
    needed = prestaging.inventory(work.bench, work.lease, options).noun
    if platform is None:
        return work, needed, None
    from dayzero.app.told import covered

    return work, needed, covered(settings, work, options)
