"""Checks, plans and shards that tests of entries share."""

from dataclasses import replace

from dayzero.domain.entry import EntryKey
from dayzero.domain.operators import CoverageKind, CoverageReport, Gap, OperatorCoverage
from dayzero.domain.plan import Estimates, MemoryBudget, ParallelPlan, PlanReport
from dayzero.domain.planning import Degrees, Workload
from dayzero.domain.shards import ShardFile, ShardManifest, ShardTensor
from dayzero.domain.verdict import Check, CheckLayer, Grade, Mode, Verdict, VerificationReport
from dayzero.stages.entries.deciding import derive_entry
from dayzero.stages.entries.required import END_TO_END, ENDS, METHOD, requirements

KEY = EntryKey("org/m", "c" * 64, "cpu", "f" * 64, "transformers", "bfloat16", Degrees(tp=3), Mode.INFERENCE)

TWO = Degrees(tp=2)


def check(layer: CheckLayer, name: str, verdict: Verdict, rung: str = "tp3", grade: Grade = Grade.MEASURED) -> Check:
    return Check(layer, name, rung, verdict, grade, f"{name} says so")


def checks(verdicts: dict[str, Verdict | None], grade: Grade = Grade.MEASURED) -> tuple[Check, ...]:
    layers = {name: need.layer for need in requirements(KEY) for name in need.any_of}
    return tuple(check(layers[name], name, verdict, grade=grade) for name, verdict in verdicts.items() if verdict)


NAMES = (
    "operators.coverage",
    "operators.float64",
    "layers.three_way",
    "model.perplexity",
    "memory.peak",
    "weights.integrity",
    "parallel.logits",
    END_TO_END,
    "decoding.three_way",
    "model.logits",
    "parallel.share",
)
FULLY = 8
"""So many of them are tried in every combination, the rest by drawing: four verdicts to the power of all would take minutes."""
ENDS_NAME = " or ".join(ENDS)
ALL_PASS: dict[str, Verdict | None] = dict.fromkeys(NAMES, Verdict.PASS)


def report(found: tuple[Check, ...], **parts: object) -> VerificationReport:
    return replace(VerificationReport(METHOD, "cpu", Mode.INFERENCE, found), **parts)


def derive(found: tuple[Check, ...], key: EntryKey = KEY):
    return derive_entry(key, mode=key.mode, coverage=None, report=report(found), plan=None)


def covered(name: str, kind: CoverageKind) -> OperatorCoverage:
    return OperatorCoverage(name, ("bfloat16",), kind, Grade.MEASURED, "why", 3, ("model",), 0.5)


def coverage(*kinds: CoverageKind, graph: float | None = 1.0, gaps: tuple[Gap, ...] = ()) -> CoverageReport:
    operators = tuple(covered(f"aten.op{index}", kind) for index, kind in enumerate(kinds))
    return CoverageReport("cpu", "d" * 64, Grade.MEASURED, operators, gaps, graph)


def planned(*weights: int | None, degrees: Degrees = TWO) -> PlanReport:
    memory = tuple(
        MemoryBudget(rank, {"state": 1} if value is None else {"weights": value}, 100) for rank, value in enumerate(weights)
    )
    plan = ParallelPlan(degrees, memory, ((0, 2),), Estimates(), None, (degrees,))
    return PlanReport("cpu", Workload(), plan, (), (), 4)


def shards(*weights: int, degrees: Degrees = TWO, digest: str | None = "a" * 64) -> ShardManifest:
    files = tuple(
        ShardFile(
            rank, f"{rank}.safetensors", size + 80, digest, (ShardTensor("w", "U8", (size,), 0, 0, size, "f", 80, 80 + size),)
        )
        for rank, size in enumerate(weights)
    )
    return ShardManifest("c" * 64, degrees, files)
