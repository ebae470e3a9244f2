"""A plan with all that explains it: the structure, the platform, the launch of each engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dayzero.domain.adaptation import Lease
from dayzero.domain.architecture import ModelSpec
from dayzero.domain.launch import Launch
from dayzero.domain.plan import PlanReport
from dayzero.domain.planning import Change
from dayzero.domain.platforms import PlatformProfile
from dayzero.domain.reports import Block
from dayzero.errors import BadInputError, NotFoundError
from dayzero.stages.explaining.picture import nearest_picture, plan_picture
from dayzero.stages.explaining.screen import plan_screen
from dayzero.stages.explaining.what_if import what_if_block
from dayzero.stages.launch.launching import ENGINES, launch_of, launch_of_pools, launch_script
from dayzero.stages.planning.weight_dtypes import stored_as
from dayzero.steps.contract import Bench
from dayzero.steps.planning import planned, resources_of, weight_dtype_of
from dayzero.steps.prestaging import structure, subject_of
from dayzero.steps.weights import full_structure, headers

POOLS = ("prefill", "decode")


@dataclass(frozen=True, slots=True)
class Explained:
    """A report, what it is about, and how it is started; `search_s` is how long planning took, nothing else.

    `pools` launch `prefill` and `decode` of the plan with prefill apart, where there is one. Where it was asked what if,
    `changes` are the platform's, and `unchanged` is the report without them.
    """

    report: PlanReport
    spec: ModelSpec
    profile: PlatformProfile
    model: str
    launch: Launch | None
    search_s: float
    changes: tuple[Change, ...] = ()
    unchanged: PlanReport | None = None
    pools: Mapping[str, Launch] = field(default_factory=dict)

    def screen(self) -> tuple[Block, ...]:
        """The one screen."""
        what_if = None if self.unchanged is None else what_if_block(self.report, self.unchanged, self.changes)
        return plan_screen(self.report, self.spec, self.profile, self.model, self.launch, self.search_s, what_if)

    def picture(self) -> str:
        """The SVG of the plan's memory and placement, or of what came nearest; NotFoundError where there is neither."""
        where = f"{self.model} on {self.profile.slug}"
        if self.report.plan is not None:
            return plan_picture(self.report.plan, self.profile, f"{where}: {self.report.plan.degrees}")
        if self.report.nearest is not None:
            return nearest_picture(self.report.nearest, where)
        raise NotFoundError("no plan fits, so that there is nothing to draw.", remedy="Read why the others were refused.")

    def script(self, engine: str, pool: str | None = None) -> str:
        """The shell script that starts the plan on an engine, or a pool of the plan with prefill apart; BadInputError says why
        it cannot be started there."""
        if engine not in ENGINES:
            raise BadInputError(f"{engine} is no engine that dayzero launches.", remedy=f"Take one of {', '.join(ENGINES)}.")
        if self.launch is None:
            raise NotFoundError("no plan fits, so that there is nothing to launch.", remedy="Read what came nearest.")
        if pool is not None and pool not in POOLS:
            raise BadInputError(f"{pool} is no pool of a plan.", remedy=f"Take one of {', '.join(POOLS)}.")
        if pool is not None and not self.pools:
            raise NotFoundError("there is no plan with prefill on devices of its own.", remedy="Leave --pool out.")
        launch = self.launch if pool is None else self.pools[pool]
        made = next(one for one in launch.engines if one.engine == engine)
        if made.unsupported:
            raise BadInputError(
                f"{engine} cannot run {pool or self._chosen}: {'; '.join(made.unsupported)}.",
                remedy="Ask for other degrees, or take another engine; --json has the neutral descriptor.",
            )
        return launch_script(made)

    @property
    def _chosen(self) -> str:
        return str(self.report.plan.degrees) if self.report.plan is not None else "it"


def explained(bench: Bench, lease: Lease, *, with_weights: bool) -> Explained:
    """The plan of an adaptation, from the real tensors or before there are any, and what explains it."""
    spec = (full_structure if with_weights else structure)(bench, lease).noun
    index = headers(bench, lease).noun if with_weights else None
    started_s = bench.clock.monotonic_s()
    report = planned(bench, lease, spec, index).noun
    search_s = bench.clock.monotonic_s() - started_s
    profile = resources_of(bench, lease).profile
    planned_for = stored_as(spec, index, weight_dtype_of(report)).spec
    launch = None if report.plan is None else launch_of(planned_for, report.plan, profile, report.workload)
    pools: Mapping[str, Launch] = {}
    if report.apart is not None:
        pools = dict(zip(POOLS, launch_of_pools(planned_for, report.apart, profile, report.workload), strict=True))
    changes = bench.request.changes
    unchanged = None
    if changes:
        as_it_is = replace(bench, request=replace(bench.request, changes=()))
        unchanged = planned(as_it_is, lease, spec, index).noun
    return Explained(
        report, planned_for, profile, subject_of(bench, lease).adaptation.model, launch, search_s, changes, unchanged, pools
    )
