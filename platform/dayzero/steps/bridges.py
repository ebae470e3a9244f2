"""Bridges that are known: found again by operator, dtypes, platform and stack, whichever model they were made for."""

from collections.abc import Sequence
from dataclasses import replace

from dayzero.codec import load
from dayzero.domain.adaptation import Lease
from dayzero.domain.bridges import Bridge, GapTask, Recipe
from dayzero.domain.operators import CoverageReport, OperatorInventory
from dayzero.domain.platforms import PlatformProfile, Stack
from dayzero.domain.results import ResultKey, result_key
from dayzero.domain.verdict import Verdict
from dayzero.stages.coverage.bridging import bridgeable, task_for, verified
from dayzero.steps.contract import Bench

BRIDGE_VERSION = 1
"""Version of how candidates are made and verified; a change of either is a new one."""


def bridge_key(profile: PlatformProfile, stack: Stack, task: GapTask, plugins: Sequence[str]) -> ResultKey:
    """What a bridge depends on: not on the model's shapes, so that the next model finds it; on what its inputs can show."""
    dtypes = sorted({dtype for call in task.calls for dtype in call.dtypes})
    return result_key("bridge", BRIDGE_VERSION, profile.figures_digest, stack.components, task.operator, dtypes, tuple(plugins))


def keys_for(
    bench: Bench, profile: PlatformProfile, report: CoverageReport, needed: OperatorInventory, plugins: Sequence[str]
) -> tuple[ResultKey, ...]:
    """Where a bridge for each of the report's gaps may be: made with these plugins, or with none."""
    offered = bench.ledger.manifest(profile.slug)
    if offered is None:
        return ()
    tasks = [task_for(gap, needed) for gap in bridgeable(report.gaps)]
    choices = dict.fromkeys((tuple(plugins), ()))
    return tuple(bridge_key(profile, offered[1], task, choice) for task in tasks for choice in choices)


def known_bridges(bench: Bench, lease: Lease, keys: Sequence[ResultKey]) -> tuple[Bridge, ...]:
    """Those of the keys that hold a bridge or a refusal, linked to the adaptation; a verified one hides a refusal."""
    found: dict[str, Bridge] = {}
    for key in keys:
        stored = bench.ledger.find_result(key)
        if stored is None:
            continue
        bridge = load(Bridge, stored.document)
        known = found.get(bridge.operator)
        if known is None or (bridge.verdict is Verdict.PASS and known.verdict is not Verdict.PASS):
            bench.ledger.link_result(stored, lease)
            found[bridge.operator] = bridge
    return tuple(found.values())


def recipes_of(bridges: Sequence[Bridge]) -> tuple[Recipe, ...]:
    """What a run installs: the recipes of the verified ones, in order of name."""
    return tuple(bridge.recipe for _, bridge in sorted(verified(bridges).items()) if bridge.recipe is not None)


def with_reasons(report: CoverageReport, bridges: Sequence[Bridge]) -> CoverageReport:
    """The report with what was tried said of each gap that stays."""
    refused = {bridge.operator: bridge.reason for bridge in bridges if bridge.verdict is not Verdict.PASS}
    gaps = tuple(
        replace(gap, why=f"{gap.why}; {refused[gap.operator]}") if gap.operator in refused else gap for gap in report.gaps
    )
    return replace(report, gaps=gaps)
