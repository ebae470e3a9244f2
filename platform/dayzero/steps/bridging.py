"""The step that bridges gaps: candidates are tried on the platform, judged, and kept for every model."""

from dataclasses import dataclass

from dayzero.codec import dump, load
from dayzero.domain.adaptation import Lease
from dayzero.domain.bridges import Bridge, BridgesObserved
from dayzero.domain.operators import CoverageReport, Gap
from dayzero.domain.reports import StepReport
from dayzero.domain.runs import Observation, RunEnd, RunRequest
from dayzero.domain.verdict import Verdict
from dayzero.registry import settings_for
from dayzero.stages.coverage.bridging import bridge_rows, bridgeable, judge_bridges, task_for
from dayzero.steps.bridges import bridge_key, known_bridges, recipes_of
from dayzero.steps.contract import Bench
from dayzero.steps.prestaging import bridges_for, coverage, inventory, subject_of
from dayzero.steps.waiting import no_manifest


@dataclass(frozen=True, slots=True)
class Bridged:
    """What became of each gap, and the coverage after it."""

    bridges: tuple[Bridge, ...]
    coverage: CoverageReport


def bridge_gaps(bench: Bench, lease: Lease) -> Bridged:
    """Bridge every graph-level gap of the adaptation's model on its platform.

    A later candidate may use what was bridged before. A run that crashed measured nothing: its gap is an error and
    is tried again the next time; everything else is kept.
    """
    bench.settled.pop(lease, None)
    before = coverage(bench, lease).noun
    bridges = [_bridge(bench, lease, gap) for gap in bridgeable(before.gaps)]
    return Bridged(tuple(bridges), coverage(bench, lease).noun if bridges else before)


def _bridge(bench: Bench, lease: Lease, gap: Gap) -> Bridge:
    subject = subject_of(bench, lease)
    offered = bench.ledger.manifest(subject.profile.slug)
    if offered is None:
        raise no_manifest(subject.profile.slug)
    task = task_for(gap, inventory(bench, lease).noun)
    plugins = settings_for(subject.adaptation.model, bench.operator_plugins)
    key = bridge_key(subject.profile, offered[1], task, plugins)
    known = known_bridges(bench, lease, (key,))
    if known:
        return known[0]
    request = RunRequest(
        Observation.BRIDGE,
        subject.profile.slug,
        custom_operators=plugins,
        device=subject.profile.device,
        bridges=recipes_of(bridges_for(bench, lease)),
        gap=task,
    )
    outcome = bench.runner.run(request, bench.limits)
    if outcome.end is not RunEnd.COMPLETED:
        reason = f"no bridge: the run {outcome.end.value.replace('_', ' ')}: {outcome.reason}"
        return Bridge(gap.operator, subject.profile.slug, Verdict.ERROR, reason)
    evidence = bench.ledger.put_artifact(outcome.document, media_type="application/json", name="bridge.json", lease=lease)
    judged = judge_bridges(load(BridgesObserved, outcome.document), subject.profile.slug, (evidence,))
    bench.ledger.put_result(key, dump(judged), lease)
    return judged


def bridge_step(bench: Bench, lease: Lease) -> StepReport:
    """Bridge the gaps and say what became of each."""
    done = bridge_gaps(bench, lease)
    passed = sum(bridge.verdict is Verdict.PASS for bridge in done.bridges)
    share = "unknown" if done.coverage.graph_coverage is None else f"{done.coverage.graph_coverage:.1%}"
    headline = f"{passed} of {len(done.bridges)} gaps bridged; graph coverage {share}, {len(done.coverage.gaps)} gaps left"
    if not done.bridges:
        headline = "no graph-level gap to bridge"
    verdicts = {bridge.verdict for bridge in done.bridges}
    worst = next((one for one in (Verdict.FAIL, Verdict.ERROR, Verdict.NOT_RUN) if one in verdicts), Verdict.PASS)
    return StepReport("bridge", headline, False, bridge_rows(done.bridges), (), worst)
