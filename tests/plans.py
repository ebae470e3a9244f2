"""Plans made by hand for what prints, draws and launches them: no search, no memory model."""

import json
from functools import lru_cache
from pathlib import Path

from dayzero.adapters.profiles.load import load_profiles
from dayzero.domain.architecture import ModelSpec
from dayzero.domain.findings import Finding
from dayzero.domain.plan import (
    Estimates,
    Interval,
    MemoryBudget,
    NearestMiss,
    ParallelPlan,
    PlanReport,
    RejectedFamily,
    Term,
)
from dayzero.domain.planning import Choices, Degrees, Workload
from dayzero.domain.platforms import Fact, Figure, FigureStatus, LinkDomain, PlatformProfile
from dayzero.stages.layout.laying import stage_layers
from dayzero.stages.structure.reading import read_spec

GB = 10**9
USUAL, SERVING = Choices(), Workload(concurrency=64)


def figure(value: float, unit: str = "B/s") -> Figure:
    return Figure(value, unit, "a test", FigureStatus.ASSUMED)


def cluster(node: int | None = 8, *domains: tuple[str, int], vendor: str = "nvidia", engines: bool = True) -> PlatformProfile:
    fact = Fact("vllm (in-tree)", "a test", FigureStatus.ASSUMED)
    return PlatformProfile(
        "made",
        "Made for a test",
        "cuda" if vendor == "nvidia" else "npu",
        memory_bytes=figure(80e9, "B"),
        link_domains=tuple(LinkDomain(name, size, figure(450e9)) for name, size in domains),
        vendor=vendor,
        devices_per_node=None if node is None else figure(node, "device"),
        engines={"vllm": fact, "sglang": fact} if engines else {},
    )


@lru_cache
def shipped(slug: str) -> PlatformProfile:
    return load_profiles(None)[slug]


@lru_cache
def structure(model: str) -> ModelSpec:
    facts = json.loads((Path(__file__).parent / "golden" / "structures.json").read_text())
    return read_spec(json.dumps(next(fact for fact in facts if fact["model"] == model)["config"]).encode(), None)


DENSE, EXPERTS, LINEAR = "meta-llama/Meta-Llama-3.1-70B", "deepseek-ai/DeepSeek-V3", "moonshotai/Kimi-K3"


def made_plan(
    degrees: Degrees, spec: ModelSpec, *, limit: int | None = 80 * GB, choices: Choices = USUAL, reserve: int = 0
) -> ParallelPlan:
    """A plan whose later stages need a little less, each rank of a stage the same."""
    budgets = tuple(
        MemoryBudget(
            rank,
            {"weights": 50 * GB - stage * GB, "state": 8 * GB, "activations": 2 * GB, "reserve": reserve},
            limit,
        )
        for rank in range(degrees.world)
        for stage in [rank // (degrees.world // degrees.pp)]
    )
    terms = (
        Term("prefill", "attention", "compute", 0.3),
        Term("prefill", "all-reduce", "node", 0.1, 0.04, "measured"),
        Term("decode", "weights", "memory", 0.02),
    )
    estimates = Estimates(Interval(0.3, 0.36, 0.5), Interval(0.015, 0.02, 0.03), Interval(900.0, 1200.0, 1600.0), None, terms)
    return ParallelPlan(
        degrees, budgets, stage_layers(len(spec.layers), degrees.pp), estimates, "memory bandwidth", (), choices=choices
    )


def made_report(
    plan: ParallelPlan | None,
    workload: Workload = SERVING,
    *,
    findings: tuple[Finding, ...] = (),
    families: tuple[RejectedFamily, ...] = (),
    pareto: tuple[ParallelPlan, ...] = (),
    nearest: NearestMiss | None = None,
    apart: ParallelPlan | None = None,
) -> PlanReport:
    return PlanReport("made", workload, plan, (), (), 12, findings, families, pareto, nearest, apart=apart)
