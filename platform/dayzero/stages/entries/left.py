"""What a pre-stage leaves for the day of the weights."""

from collections.abc import Sequence

from dayzero.domain.findings import Finding
from dayzero.domain.operators import CoverageReport
from dayzero.domain.plan import PlanReport
from dayzero.domain.verdict import Check, Verdict, worst_of

REHEARSAL = "rehearsal."
"""How the name of a check begins that was made of the reduced model."""

NAMED = 5
"""How many gaps are listed before the rest is only counted."""


def left_for_the_day(
    required: Sequence[str],
    checks: Sequence[Check],
    coverage: CoverageReport | None,
    plan: PlanReport | None,
    findings: Sequence[Finding] = (),
) -> tuple[str, ...]:
    """One sentence for each thing that is left, what can be done before the weights first.

    `required` are the checks that the method asks of the real weights; `findings` tell what the rehearsal left out.
    """
    left = [f"{check.check}: {check.reason}" for check in checks if check.verdict is not Verdict.PASS]
    gaps = coverage.gaps if coverage else ()
    left += [f"bridge {gap.operator}: {gap.bridge or 'no way to bridge it is known'}" for gap in gaps[:NAMED]]
    left += [f"bridge {len(gaps) - NAMED} more operators"] if len(gaps) > NAMED else []
    left += [finding.message for finding in findings]
    chosen = plan.plan if plan else None
    if chosen is not None:
        weights = sum(budget.items_bytes.get("weights", 0) for budget in chosen.memory)
        left.append(f"fetch and shard about {weights:,} bytes of weights for {chosen.degrees}; plan again from their headers")
    left.append(f"check the real weights: {', '.join(required)}")
    return tuple(left)


def rehearsal_sentence(checks: Sequence[Check]) -> str:
    """How the rehearsal went, in one sentence."""
    run = [check for check in checks if check.verdict is not Verdict.NOT_RUN]
    if not run:
        return "nothing was run yet"
    worst = worst_of(run)
    if worst.verdict is Verdict.PASS:
        return f"all {len(run)} checks of the rehearsal pass"
    return f"{worst.check} {'fails' if worst.verdict is Verdict.FAIL else 'could not be measured'}: {worst.reason}"
