"""From an entry and the nouns of its evidence to the report that a page shows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from dayzero.domain.entry import CompatibilityEntry
from dayzero.domain.entry_report import DeployFile, FingerprintFigures, LayerSeries, MemorySeries, OperatorFigures, Report
from dayzero.domain.observations import LayerErrors, MemoryObserved, OperatorErrors
from dayzero.domain.observed_decoding import DecodeErrors
from dayzero.domain.observed_parallel import ParallelObserved
from dayzero.domain.plan import PlanReport
from dayzero.domain.verdict import Check
from dayzero.stages.reporting.layers import decode_series, layer_series, nearest_operators
from dayzero.stages.reporting.memory import measured_series, planned_series, ranks_of
from dayzero.stages.reporting.summing import features, layer_verdicts

Evidence = LayerErrors | DecodeErrors | OperatorErrors | MemoryObserved | ParallelObserved

MOST_SERIES = 12


@dataclass(frozen=True, slots=True)
class Known:
    """What is known beside the entry itself: its evidence by check, the plan, the packages, the bundle's files."""

    evidence: tuple[tuple[Check, Evidence], ...] = ()
    plan: PlanReport | None = None
    stack: Mapping[str, str] = field(default_factory=dict)
    deploy: tuple[DeployFile, ...] = ()
    unread: tuple[str, ...] = ()
    release: str | None = None
    entry_id: str | None = None
    recorded_at: datetime | None = None


def report_of(entry: CompatibilityEntry, known: Known) -> Report:
    """The report; what has no evidence is absent, never made up."""
    planned = planned_series(known.plan)
    memory: list[MemorySeries] = [planned] if planned else []
    layers: list[LayerSeries] = []
    operators: list[OperatorFigures] = []
    prints: list[FingerprintFigures] = []
    for check, observed in known.evidence[: MOST_SERIES * 4]:
        match observed:
            case LayerErrors():
                layers.append(layer_series(observed, check, entry.culprits))
            case DecodeErrors():
                layers.append(decode_series(observed, check, entry.culprits))
            case OperatorErrors():
                operators += nearest_operators(observed)
            case MemoryObserved():
                memory.append(measured_series(observed, check, entry.measurements))
            case ParallelObserved():
                held, sketches = ranks_of(observed, check)
                memory.append(held)
                prints += [sketches] if sketches else []
    return Report(
        entry=entry,
        entry_id=known.entry_id,
        recorded_at=known.recorded_at,
        release=known.release,
        stack=known.stack,
        verdicts=layer_verdicts(entry),
        features=features(entry, known.stack),
        layers=tuple(sorted((one for one in layers if one.layers), key=lambda one: one.check.startswith("decoding")))[
            :MOST_SERIES
        ],
        memory=tuple(memory)[:MOST_SERIES],
        operators=tuple(operators),
        fingerprints=tuple(prints),
        deploy=known.deploy,
        unread=known.unread,
    )
