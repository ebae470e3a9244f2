"""Which modules must keep their precision under a scheme: a search on the platform's host, and the policy that results."""

from dataclasses import dataclass, replace

from dayzero.codec import load
from dayzero.domain.adaptation import Lease
from dayzero.domain.precision_policy import POLICY_SCHEMA, PrecisionPolicy, SensitiveObserved
from dayzero.domain.reports import Cell, StepReport
from dayzero.domain.runs import Observation, RunEnd
from dayzero.domain.verdict import Verdict
from dayzero.errors import BadInputError, MeasurementError
from dayzero.steps.contract import Bench
from dayzero.steps.verifying import evidence_of, key_of, outcome_of, request_for

SHOWN = 12
"""Modules that a report lists; the document has them all."""


@dataclass(frozen=True, slots=True)
class Searched:
    """What was observed, and whether it was found from before."""

    observed: SensitiveObserved
    reused: bool


def find_sensitive(bench: Bench, lease: Lease, scheme: str) -> Searched:
    """Search (or find what was searched) for the fewest promotions; MeasurementError when the run did not complete."""
    asked = request_for(bench, lease, Observation.SENSITIVE)
    request = replace(asked, options={"scheme": scheme}, policy=None)
    outcome, reused = outcome_of(bench, lease, request, key_of(bench, lease, request))
    evidence_of(bench, lease, request, outcome)
    if outcome.end is not RunEnd.COMPLETED:
        raise MeasurementError(
            f"the search for sensitive modules {outcome.end.value.replace('_', ' ')}: {outcome.reason}.",
            remedy="The run's log has the details.",
        )
    return Searched(load(SensitiveObserved, outcome.document), reused)


def sensitive_report(searched: Searched) -> StepReport:
    """The search as a report: pass when a policy was found, fail when not even every promotion helps."""
    found = searched.observed
    policy = found.policy
    promoted = {one.module for one in policy.promoted} if policy else set()
    rows: tuple[dict[str, Cell], ...] = tuple(
        {"module": one.module, "divergence alone": one.alone, "promoted": "yes" if one.module in promoted else ""}
        for one in found.alone[:SHOWN]
    )
    limit = f"limit {found.limit:.3g} nats a token over {found.tokens} tokens"
    if policy is None:
        headline = f"no policy: {found.scheme} misses the {limit} even with all {found.modules} modules promoted"
        return StepReport("sensitive", headline, searched.reused, rows, verdict=Verdict.FAIL)
    without = "not a number" if found.without is None else f"{found.without:.3g}"
    headline = (
        f"{len(promoted)} of {found.modules} modules keep their precision under {found.scheme}: divergence {without} without, "
        f"{found.reached or 0.0:.3g} with them, {limit}; {len(found.tried)} sets measured"
    )
    return StepReport("sensitive", headline, searched.reused, rows, verdict=Verdict.PASS)


def read_policy(document: bytes, name: str) -> PrecisionPolicy:
    """A policy from its file; BadInputError when it is none."""
    remedy = "Find one: dayzero verify MODEL --sensitive int8 --out FILE."
    try:
        policy = load(PrecisionPolicy, document)
    except BadInputError as error:
        raise BadInputError(f"{name} is no precision policy: {error.message}", remedy=remedy) from error
    if policy.schema != POLICY_SCHEMA:
        raise BadInputError(f"{name} has the schema {policy.schema}, this release reads {POLICY_SCHEMA}.", remedy=remedy)
    return policy
