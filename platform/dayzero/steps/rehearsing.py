"""Rehearsal: the reduced architecture with dummy weights, through the same observations and judgements as the real one."""

import hashlib
from dataclasses import dataclass, replace

from dayzero.codec import load
from dayzero.domain.adaptation import Lease
from dayzero.domain.planning import Degrees
from dayzero.domain.rehearsal import Reduction
from dayzero.domain.reports import StepReport
from dayzero.domain.results import ResultKey, result_key
from dayzero.domain.runs import Observation, RunRequest
from dayzero.domain.verdict import Check, Grade, Verdict, worst_of
from dayzero.errors import BlockedError
from dayzero.registry import settings_for
from dayzero.stages.entries.left import REHEARSAL
from dayzero.stages.judging import checks as judging
from dayzero.stages.reduction.reducing import reduce_configuration
from dayzero.stages.structure.language_head import without_head, writes_text
from dayzero.steps.bridges import recipes_of
from dayzero.steps.contract import Bench
from dayzero.steps.keeping import Kept, keep
from dayzero.steps.prestaging import configuration, require_reference, settled_bridges, structure, subject_of
from dayzero.steps.sampling import that_tell
from dayzero.steps.stacks import runner_of
from dayzero.steps.verifying import OBSERVER_VERSION, check_row, evidence_of, outcome_of

REHEARSED = (Observation.OPERATORS, Observation.LAYERS, Observation.GENERATION)
"""Perplexity says nothing about dummy weights, and a parallel run needs the shards of real ones."""

SEED = 20
TOKENS = 160
"""More than any window that a reduction leaves and than the coarsest compression known (128 tokens an entry)."""

PROMPT = "In the beginning there is a long sentence, so that windows close, compressed entries form and caches turn over. " * 2


@dataclass(frozen=True, slots=True)
class _Asked:
    """A rehearsal's request and what its result is kept under."""

    request: RunRequest
    key: ResultKey


def reduction(bench: Bench, lease: Lease) -> Kept[Reduction]:
    """The reduced configuration and what was reduced."""
    text = configuration(bench, lease).noun.text
    spec = structure(bench, lease).noun
    key = result_key("reduction", 1, text, spec)
    return keep(bench.ledger, lease, key, Reduction, lambda: reduce_configuration(text.encode(), spec))


def reduction_step(bench: Bench, lease: Lease) -> StepReport:
    """Reduce the configuration and list every field that was changed."""
    kept = reduction(bench, lease)
    found = kept.noun
    layers = len(structure(bench, lease).noun.layers)
    rows = tuple({"field": change.name, "was": change.was, "now": change.now} for change in found.changes)
    headline = f"{found.layers} of {layers} layers hold {found.kinds} kinds; {len(found.changes)} fields reduced"
    return StepReport("reduction", headline, kept.reused, rows, tuple(finding.message for finding in found.findings))


def rehearse(bench: Bench, lease: Lease, observation: Observation) -> StepReport:
    """One observation of the rehearsal, judged; its checks are predictions about the model. Not_run without a reference."""
    try:
        require_reference(bench, lease)
    except BlockedError as error:
        return leave(bench, lease, (observation,), str(error))
    checks, reused, notes = rehearsed(bench, lease, observation)
    for check in checks:
        bench.ledger.put_check(check, lease)
    return _report(observation, checks, reused, notes)


def rehearsed(bench: Bench, lease: Lease, observation: Observation) -> tuple[tuple[Check, ...], bool, tuple[str, ...]]:
    """The checks of a rehearsal, which are not recorded yet, whether it was found, and its culprits, a line each."""
    asked = _ask(bench, lease, observation)
    outcome, reused = outcome_of(bench, lease, asked.request, asked.key)
    evidence = evidence_of(bench, lease, asked.request, outcome)
    judged = judging.judge(asked.request, outcome, load, bench.limits, evidence)
    size = reduction(bench, lease).noun
    checks = tuple(_predicted(check, size) for check in that_tell(judged.checks))
    return checks, reused, tuple(f"culprit: {item.module} ({item.operator})" for item in judged.culprits)


def leave(bench: Bench, lease: Lease, observations: tuple[Observation, ...], reason: str) -> StepReport:
    """Record these observations of the rehearsal as not run, and why."""
    checks = tuple(
        replace(check, check=REHEARSAL + check.check, grade=Grade.PREDICTED)
        for observation in observations
        for check in judging.not_run(observation, str(Degrees()), reason)
    )
    for check in checks:
        bench.ledger.put_check(check, lease)
    return _report(observations[0], checks, False, ())


def leave_rehearsal(bench: Bench, lease: Lease, reason: str) -> StepReport:
    """Record the whole rehearsal as not run, and why."""
    return leave(bench, lease, REHEARSED, reason)


def _ask(bench: Bench, lease: Lease, observation: Observation) -> _Asked:
    """The request, with the reduced configuration in a folder of this host; the key knows its bytes and not the folder."""
    config = reduction(bench, lease).noun.config
    folder = bench.work_dir / "rehearsals" / hashlib.sha256(config.encode()).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(config, encoding="utf-8")
    subject = subject_of(bench, lease)
    request = RunRequest(
        observation,
        subject.profile.slug,
        model_dir=str(folder),
        options={"dummy_seed": SEED, "tokens": TOKENS, "prompt": PROMPT, "compile": False},
        custom_operators=settings_for(subject.adaptation.model, bench.operator_plugins),
        device=subject.profile.device,
        bridges=recipes_of(settled_bridges(bench, lease)),
    )
    asked = replace(request, model_dir=None)
    stack = runner_of(bench, lease).stack().components
    return _Asked(request, result_key(f"rehearse.{observation.value}", OBSERVER_VERSION, config, stack, asked))


def _predicted(check: Check, size: Reduction) -> Check:
    """What was measured of the reduced model is a prediction about the real one."""
    numbers = {**check.numbers, "rehearsed_layers": size.layers, "rehearsed_kinds": size.kinds, "seed": SEED}
    reason = f"{check.reason} (reduced to {size.layers} layers, dummy weights, eager)"
    return replace(check, check=REHEARSAL + check.check, grade=Grade.PREDICTED, reason=reason, numbers=numbers)


def _report(observation: Observation, checks: tuple[Check, ...], reused: bool, notes: tuple[str, ...]) -> StepReport:
    worst = worst_of(checks)
    rows = tuple(check_row(check) for check in checks)
    headline = f"{worst.verdict.value}: {worst.reason}"
    return StepReport(f"rehearse-{observation.value}", headline, reused, rows, notes, Verdict(worst.verdict))


def operators_step(bench: Bench, lease: Lease) -> StepReport:
    """Rehearse each distinct operator against float64."""
    return rehearse(bench, lease, Observation.OPERATORS)


def layers_step(bench: Bench, lease: Lease) -> StepReport:
    """Rehearse each kind of layer three ways."""
    return rehearse(bench, lease, Observation.LAYERS)


def generation_step(bench: Bench, lease: Lease) -> StepReport:
    """Rehearse decoding with a cache; a model without a language head decodes nothing."""
    spec = structure(bench, lease).noun
    causal = any(mixer.causal for layer in spec.layers for mixer in layer.mixers) or not spec.layers
    if not writes_text(spec.architecture, causal=causal):
        return leave(bench, lease, (Observation.GENERATION,), without_head(spec.architecture))
    return rehearse(bench, lease, Observation.GENERATION)
