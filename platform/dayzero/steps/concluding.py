"""From everything that an adaptation found to its entry, and the end of its attempt."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from dayzero.codec import load
from dayzero.domain.adaptation import Adaptation, AdaptationState, Lease, Purpose
from dayzero.domain.ageing import basis_of
from dayzero.domain.architecture import ModelSpec
from dayzero.domain.computing import Computing
from dayzero.domain.entry import CompatibilityEntry, DayZeroClock, EntryKey, Lifecycle
from dayzero.domain.observations import GenerationObserved
from dayzero.domain.operators import CoverageReport, OperatorInventory
from dayzero.domain.plan import PlanReport
from dayzero.domain.planning import Degrees
from dayzero.domain.platforms import Stack
from dayzero.domain.rehearsal import Reduction
from dayzero.domain.reports import Cell
from dayzero.domain.results import StoredResult
from dayzero.domain.stacks import INSTALLED, StackChoice, StackRecipe, over
from dayzero.domain.verdict import Culprit, Verdict, VerificationReport
from dayzero.domain.waivers import Waiver
from dayzero.errors import BlockedError, DayzeroError
from dayzero.ports.catalog import Catalog
from dayzero.stages.entries.deciding import derive_entry, predicted_entry
from dayzero.stages.entries.features import features_of, layers_of
from dayzero.stages.entries.required import METHODS
from dayzero.stages.entries.waiving import in_force
from dayzero.stages.failures.finding import failures_of
from dayzero.stages.failures.foretelling import foretold, sentence
from dayzero.steps.contract import Bench
from dayzero.steps.stacks import STACK, recipe_of
from dayzero.steps.waiting import no_manifest_reason, no_worker_reason

Noun = TypeVar("Noun")

ENGINE = "torch"
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Culprits:
    """Where precision faults start, as the layer check named them."""

    found: tuple[Culprit, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended: the adaptation as it stands now, its entry, why, and the error that stopped it (None: nothing)."""

    adaptation: Adaptation
    entry: CompatibilityEntry | None
    reason: str | None
    error: DayzeroError | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The nouns that an adaptation's linked results hold; None where a step has not come so far."""

    spec: ModelSpec | None
    coverage: CoverageReport | None
    plan: PlanReport | None
    culprits: tuple[Culprit, ...]
    sample_text: str | None
    bundle: str | None
    reduction: Reduction | None
    inventory: OperatorInventory | None
    recipe: StackRecipe = INSTALLED


def found_by(bench: Bench, lease: Lease) -> Found:
    """What the adaptation's results say, the newest of each stage."""
    newest = {stored.key.stage: stored for stored in bench.ledger.linked_results(lease.adaptation_id)}
    plan = newest.get("plan.weights") or newest.get("plan")
    spec = newest.get("structure.weights") or newest.get("structure")
    generation = _noun(newest.get("observe.generation"), GenerationObserved)
    culprits = [load(Culprits, stored.document) for stage, stored in newest.items() if stage.startswith("culprits.")]
    bundle = newest.get("bundle")
    return Found(
        spec=_noun(spec, ModelSpec),
        coverage=_noun(newest.get("coverage"), CoverageReport),
        plan=_noun(plan, PlanReport),
        culprits=tuple(culprit for kept in culprits for culprit in kept.found),
        sample_text=generation.text if generation else None,
        bundle=load(str, bundle.document) if bundle else None,
        reduction=_noun(newest.get("reduction"), Reduction),
        inventory=_noun(newest.get("inventory"), OperatorInventory),
        recipe=recipe_of(_noun(newest.get(STACK), StackChoice)),
    )


def _noun(stored: StoredResult | None, noun: type[Noun]) -> Noun | None:
    return None if stored is None else load(noun, stored.document)


def key_of(adaptation: Adaptation, found: Found, stack: Stack | None) -> EntryKey:
    """What the adaptation's entry is about, as far as it is known."""
    planned = found.plan.plan if found.plan else None
    dtype = (found.spec.native_dtype if found.spec else None) or UNKNOWN
    return EntryKey(
        model=adaptation.model,
        content_id=adaptation.content_id,
        platform=adaptation.platform,
        stack_fingerprint=over(stack, found.recipe).fingerprint if stack else UNKNOWN,
        engine=ENGINE,
        dtype=str(
            Computing(
                dtype,
                scheme=adaptation.policy.scheme if adaptation.policy else None,
                cache_dtype=planned.choices.cache_dtype if planned else None,
            )
        ),
        plan=planned.degrees if planned else Degrees(),
        mode=adaptation.mode,
    )


def report_of(bench: Bench, adaptation: Adaptation, found: Found) -> VerificationReport:
    """Every check and measurement that is recorded for the adaptation."""
    return VerificationReport(
        method=METHODS[adaptation.mode],
        platform=adaptation.platform,
        mode=adaptation.mode,
        checks=tuple(bench.ledger.checks(adaptation.id)),
        measurements=tuple(bench.ledger.measurements(adaptation.id)),
        culprits=found.culprits,
        sample_text=found.sample_text,
    )


def entry_of(
    bench: Bench,
    lease: Lease,
    *,
    blocked_reason: str | None = None,
    clock: DayZeroClock | None = None,
    waivers: Sequence[Waiver] = (),
) -> CompatibilityEntry:
    """The entry that follows from what was found so far, with what it rests on."""
    adaptation = bench.ledger.adaptation(lease.adaptation_id)
    found = found_by(bench, lease)
    offered = bench.ledger.manifest(adaptation.platform)
    stack = offered[1] if offered else None
    key = key_of(adaptation, found, stack)
    basis = basis_of(stack, found.recipe, bench.profiles.get(adaptation.platform))
    entry = _derived(bench, adaptation, found, key, blocked_reason, clock or DayZeroClock(), waivers)
    known = (
        ()
        if found.inventory is None
        else foretold(found.inventory, bench.known_failures(adaptation.platform), stack.fingerprint if stack else None)
    )
    met = tuple(sentence(one) for one in known) if adaptation.purpose is Purpose.PRESTAGE else ()
    return replace(
        entry,
        basis=basis,
        policy=adaptation.policy,
        layers=layers_of(entry.checks, key, entry.missing_checks),
        features=features_of(entry.checks, key, _quantization(found), basis.stack),
        failures=failures_of(entry, offered[0].sampled if offered else ()),
        foretold=met,
        left=(*met, *entry.left),
    )


def _quantization(found: Found) -> str | None:
    return found.inventory.quantization if found.inventory else None


def _derived(
    bench: Bench,
    adaptation: Adaptation,
    found: Found,
    key: EntryKey,
    blocked_reason: str | None,
    clock: DayZeroClock,
    waivers: Sequence[Waiver],
) -> CompatibilityEntry:
    if adaptation.purpose is Purpose.PRESTAGE:
        return predicted_entry(
            key,
            coverage=found.coverage,
            plan=found.plan,
            lifecycle=Lifecycle.STAGED,
            blocked_reason=blocked_reason,
            clock=clock,
            recorded=tuple(bench.ledger.checks(adaptation.id)),
            left_out=found.reduction.findings if found.reduction else (),
        )
    return derive_entry(
        key,
        mode=adaptation.mode,
        coverage=found.coverage,
        report=report_of(bench, adaptation, found),
        plan=found.plan,
        blocked_reason=blocked_reason,
        clock=clock,
        bundle=found.bundle,
        waivers=in_force(waivers, key.model, key.platform, bench.clock.now()),
    )


def conclude(bench: Bench, catalog: Catalog, lease: Lease) -> Outcome:
    """End an attempt that ran through; its reason is the entry's.

    A pre-stage that waits for its platform to be there is blocked with that one reason, so that it goes on when it is; its
    entry says all that is known all the same.
    """
    entry = entry_of(bench, lease, clock=catalog.clock_of(lease.adaptation_id), waivers=catalog.waivers())
    waits = _waits_for(entry) if bench.ledger.adaptation(lease.adaptation_id).purpose is Purpose.PRESTAGE else None
    if waits is not None:
        adaptation = catalog.finish(lease, AdaptationState.BLOCKED, waits, entry)
        return Outcome(adaptation, entry, waits)
    adaptation = catalog.finish(lease, AdaptationState.DONE, entry.reason, entry)
    return Outcome(adaptation, entry, entry.reason)


def _waits_for(entry: CompatibilityEntry) -> str | None:
    """The reason that a worker's joining takes away, where one of the checks was not run for it."""
    reasons = [check.reason for check in entry.checks if check.verdict is Verdict.NOT_RUN]
    platform = entry.key.platform
    return next((reason for reason in (no_worker_reason(platform), no_manifest_reason(platform)) if reason in reasons), None)


def stop(bench: Bench, catalog: Catalog, lease: Lease, error: DayzeroError) -> Outcome:
    """End an attempt that an error stopped: blocked where the operator can unblock it, else failed; never passing."""
    state = AdaptationState.BLOCKED if isinstance(error, BlockedError) else AdaptationState.FAILED
    reason = str(error)
    clock = catalog.clock_of(lease.adaptation_id)
    entry = entry_of(bench, lease, blocked_reason=reason, clock=clock, waivers=catalog.waivers())
    adaptation = catalog.finish(lease, state, reason, entry)
    return Outcome(adaptation, entry, reason, error)


def entry_rows(entry: CompatibilityEntry | None) -> tuple[dict[str, Cell], ...]:
    """An entry's checks as table rows."""
    return tuple(
        {
            "layer": check.layer.value,
            "check": check.check,
            "rung": check.rung,
            "verdict": check.verdict.value,
            "measured": check.measured,
            "tolerance": check.tolerance,
            "n": check.n,
            "reason": check.reason,
        }
        for check in (entry.checks if entry else ())
    )
