"""The ladder on the platform: rungs from the plan, the smallest first, each judged before the next is run."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from dayzero.domain.adaptation import Lease
from dayzero.domain.observations import CheckName
from dayzero.domain.plan import Rung
from dayzero.domain.planning import Degrees
from dayzero.domain.reports import Cell, StepReport
from dayzero.domain.runs import Observation, RunRequest
from dayzero.domain.verdict import Check, Verdict
from dayzero.errors import BlockedError
from dayzero.stages.climbing.rungs import Climbed, climbed, ladder_check, parallel_rungs, rungs_to, stops, why_not_climbed
from dayzero.stages.judging import checks as judging
from dayzero.steps.contract import OWN_ENGINE, Bench
from dayzero.steps.prestaging import subject_of
from dayzero.steps.rehearsing import rehearsed
from dayzero.steps.shards import on_disk, write_shards
from dayzero.steps.verifying import check_row, culprit_notes, headless, judged_run, not_applicable, request_for
from dayzero.steps.weights import agreed_plan, chosen_degrees

REDUCED, ALONE = "reduced, dummy weights", "one rank, real weights"
ONE_DEVICE = "the plan takes one device, so there is no parallel run to compare"


def parallel_step(bench: Bench, lease: Lease) -> StepReport:
    """Climb to the plan: reduced with dummy weights, whole on one rank, then rung by rung to its degrees or the platform's
    devices. A library's own ranks are climbed without the rungs on one rank. A plan of one device is not_run."""
    degrees = _goal(bench, lease)
    reason = ONE_DEVICE if degrees.world == 1 else headless(bench, lease)
    if reason is not None:
        return not_applicable(bench, lease, Observation.PARALLEL, str(degrees), reason)
    found = _Climb(bench, lease, degrees)
    if bench.engine == OWN_ENGINE:
        found.rungs += [climbed(REDUCED, _reduced(bench, lease)), climbed(ALONE, _alone(bench, lease))]
    for rung in _rungs(bench, lease, degrees):
        found.climb(rung)
    return found.report()


def _goal(bench: Bench, lease: Lease) -> Degrees:
    return bench.degrees or Degrees() if bench.engine != OWN_ENGINE else chosen_degrees(bench, lease)


def _rungs(bench: Bench, lease: Lease, degrees: Degrees) -> tuple[Rung, ...]:
    if bench.engine != OWN_ENGINE:
        return tuple(rung for rung in rungs_to(degrees) if rung.degrees.world > 1)
    plan = agreed_plan(bench, lease).plan
    return parallel_rungs(plan) if plan is not None else ()


def _reduced(bench: Bench, lease: Lease) -> tuple[Check, ...]:
    """The reduced model with dummy weights; found again where the pre-stage rehearsed it. What cannot be reduced or built is
    not_run: the real weights may run all the same."""
    try:
        checks, _, _ = rehearsed(bench, lease, Observation.LAYERS)
    except BlockedError as error:
        return judging.not_run(Observation.LAYERS, str(Degrees()), str(error))
    # A reduction that the library cannot build says nothing about the model.
    return tuple(replace(check, verdict=Verdict.NOT_RUN) if check.verdict is Verdict.ERROR else check for check in checks)


def _alone(bench: Bench, lease: Lease) -> tuple[Check, ...]:
    """What the layers of the real weights came to on one rank, where they were observed."""
    checks = bench.ledger.checks(lease.adaptation_id)
    return tuple(check for check in checks if check.check == CheckName.LAYERS_THREE_WAY.value)[-1:]


class _Climb:
    """The rungs climbed so far, and what they left in the ledger."""

    def __init__(self, bench: Bench, lease: Lease, goal: Degrees) -> None:
        self.bench, self.lease, self.goal = bench, lease, goal
        self.rungs: list[Climbed] = []
        self.rows: list[dict[str, Cell]] = []
        self.notes: list[str] = []
        self.reused = True

    def climb(self, rung: Rung) -> None:
        """Run the rung, or record why not."""
        stopped = next((one for one in self.rungs if stops(one)), None)
        reason = why_not_climbed(rung, self.bench.devices, stopped)
        if reason is not None:
            checks = judging.not_run(Observation.PARALLEL, str(rung.degrees), reason)
            for check in checks:
                self.bench.ledger.put_check(check, self.lease)
        else:
            checks = self._run(rung.degrees)
        self.rungs.append(climbed(str(rung.degrees), checks))
        self.rows += [{"rung": check.rung, **check_row(check)} for check in checks]

    def _run(self, degrees: Degrees) -> tuple[Check, ...]:
        for request in _requests(self.bench, self.lease, degrees, self.goal):
            judged, reused = judged_run(self.bench, self.lease, request)
            self.notes += culprit_notes(judged)
            self.reused = self.reused and reused
        return judged.checks

    def report(self) -> StepReport:
        """Record the climb as a whole."""
        check = ladder_check(self.goal, self.rungs)
        self.bench.ledger.put_check(check, self.lease)
        rows = (*self.rows, {"rung": check.rung, **check_row(check)})
        headline = f"{check.verdict.value}: {check.reason}"
        return StepReport("parallel", headline, self.reused, rows, tuple(self.notes), check.verdict)


def _requests(bench: Bench, lease: Lease, degrees: Degrees, goal: Degrees) -> Iterator[RunRequest]:
    """The rung's request, once; shards that only a smaller rung needs are let go when it was run."""
    request = request_for(bench, lease, Observation.PARALLEL)
    if bench.engine != OWN_ENGINE:
        options = {**request.options, "engine": bench.engine}
        yield replace(request, degrees=degrees, shards_dir=None, options=options)
        return
    if degrees == goal:
        yield request
        return
    place = on_disk(bench, subject_of(bench, lease).release, degrees)
    checkpoint = Path(request.model_dir) if request.model_dir else None
    write_shards(bench, lease, place.shards_dir, checkpoint=checkpoint, degrees=degrees)
    try:
        yield replace(request, degrees=degrees, shards_dir=str(place.shards_dir))
    finally:
        shutil.rmtree(place.shards_dir, ignore_errors=True)
