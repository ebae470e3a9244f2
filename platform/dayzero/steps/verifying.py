"""Steps on the platform: observe in an isolated process, judge, and record."""

from dataclasses import replace

from dayzero.codec import dump, load
from dayzero.domain.adaptation import Lease
from dayzero.domain.computing import EIGHT_BITS
from dayzero.domain.observations import CheckName
from dayzero.domain.planning import Degrees
from dayzero.domain.reports import StepReport
from dayzero.domain.results import ResultKey, result_key
from dayzero.domain.runs import Observation, RunEnd, RunOutcome, RunRequest
from dayzero.domain.verdict import SEVERITY, Check, Verdict, worst_of
from dayzero.registry import settings_for
from dayzero.stages.judging import checks as judging
from dayzero.stages.judging.beside import beside_checks
from dayzero.stages.structure.language_head import without_head, writes_text
from dayzero.steps.baselines import HOST_OPTIONS, reference_options
from dayzero.steps.bridges import recipes_of
from dayzero.steps.concluding import Culprits
from dayzero.steps.contract import Bench
from dayzero.steps.prestaging import require_reference, settled_bridges, subject_of
from dayzero.steps.sampling import keep_samples, that_tell, with_known_calls
from dayzero.steps.shards import place_of
from dayzero.steps.stacks import runner_of
from dayzero.steps.weights import chosen_degrees, exact_plan, full_structure

OBSERVER_VERSION = 4
"""Version of what the child processes observe; a change of what is measured is a new one."""

DOCUMENT_TYPE = "application/json"

KNOWS_NOTHING = 0.5
"""Share of the vocabulary above which a perplexity is that of a model without training: a uniform guess has all of it."""

FROM_A_SOURCE = (Observation.LAYERS, Observation.DECODING, Observation.PERPLEXITY)
"""Observations that can take a model layer by layer."""


def request_for(bench: Bench, lease: Lease, observation: Observation) -> RunRequest:
    """The request of one observation of the adaptation's model; the parallel one carries the plan and the shards.

    Layers are checked on the compiled target. Perplexity and generation take the eager path that the bundle's scripts take,
    and say so; it is another one than the reference's (fused attention, grouped experts).
    """
    subject = subject_of(bench, lease)
    require_reference(bench, lease)
    place = place_of(bench, lease)
    parallel = observation in (Observation.PARALLEL, Observation.MEMORY)
    return RunRequest(
        observation=observation,
        platform=subject.profile.slug,
        model_dir=str(place.model_dir),
        shards_dir=str(place.shards_dir) if parallel else None,
        degrees=chosen_degrees(bench, lease) if parallel else Degrees(),
        dtype=_unstated_dtype(bench, lease),
        custom_operators=settings_for(subject.adaptation.model, bench.operator_plugins),
        options={
            "compile": bench.compile_target and observation in (Observation.LAYERS, Observation.TOWERS),
            **(reference_options(bench, lease) if observation in FROM_A_SOURCE else {}),
        },
        device=subject.profile.device,
        bridges=recipes_of(settled_bridges(bench, lease)),
        policy=subject.adaptation.policy,
    )


def _unstated_dtype(bench: Bench, lease: Lease) -> str | None:
    """The dtype that the headers hold, where the configuration states none; None where it does."""
    spec = full_structure(bench, lease).noun
    return spec.native_dtype if any(one.field == "dtype" for one in spec.assumptions) else None


def key_of(bench: Bench, lease: Lease, request: RunRequest) -> ResultKey:
    """What an observation depends on: the release's content, the stack, the request without this host's paths."""
    content_id = subject_of(bench, lease).release.content_id
    options = {name: value for name, value in request.options.items() if name not in HOST_OPTIONS}
    asked = replace(request, model_dir=None, shards_dir=None, options=options)
    stack = runner_of(bench, lease).stack()
    return result_key(f"observe.{request.observation.value}", OBSERVER_VERSION, content_id, stack.components, asked)


def observe(bench: Bench, lease: Lease, observation: Observation) -> StepReport:
    """Observe (or find what was observed), judge, and record checks, measurements and culprits with their evidence."""
    judged, reused = judged_run(bench, lease, request_for(bench, lease, observation))
    return _report(observation, judged, reused)


def judged_run(bench: Bench, lease: Lease, request: RunRequest) -> tuple[judging.Judged, bool]:
    """What a run says, and whether it was found; its checks, measurements and culprits are recorded."""
    key = key_of(bench, lease, request)
    outcome, reused = outcome_of(bench, lease, request, key)
    evidence = evidence_of(bench, lease, request, outcome)
    judged = judging.judge(request, outcome, load, bench.limits, evidence)
    for check in judged.checks:
        bench.ledger.put_check(check, lease)
    for measurement in judged.measurements:
        bench.ledger.put_measurement(measurement, lease)
    if outcome.end is RunEnd.COMPLETED:
        _keep_culprits(bench, lease, key, request.observation, judged)
    else:
        bench.ledger.log(lease, f"{request.observation.value}: {outcome.log_tail[-1000:]}")
    return judged, reused


def outcome_of(bench: Bench, lease: Lease, request: RunRequest, key: ResultKey) -> tuple[RunOutcome, bool]:
    """The outcome that is kept under the key, or that of a run now; whether it was found. Only what completed is kept."""
    found = bench.ledger.find_result(key)
    if found is not None:
        bench.ledger.link_result(found, lease)
        return RunOutcome(RunEnd.COMPLETED, found.document, "", "", 0.0, None), True
    runner, sampled = runner_of(bench, lease), request.observation is Observation.OPERATORS
    outcome = runner.run(with_known_calls(bench, runner, request) if sampled else request, bench.limits)
    if outcome.end is RunEnd.COMPLETED:
        bench.ledger.put_result(key, outcome.document, lease)
        if sampled:
            keep_samples(bench, runner, request, outcome.document)
    return outcome, False


def evidence_of(bench: Bench, lease: Lease, request: RunRequest, outcome: RunOutcome) -> tuple[str, ...]:
    """The document of a run as an artifact, or its log where it did not complete."""
    data, kind, name = outcome.document, DOCUMENT_TYPE, f"{request.observation.value}.json"
    if outcome.end is not RunEnd.COMPLETED:
        data, kind, name = outcome.log_tail.encode(), "text/plain", f"{request.observation.value}.log"
    return (bench.ledger.put_artifact(data, media_type=kind, name=name, lease=lease),) if data else ()


def _keep_culprits(bench: Bench, lease: Lease, observed: ResultKey, observation: Observation, judged: judging.Judged) -> None:
    """Culprits are kept beside the checks: one result an observation, read again when the entry is derived."""
    key = result_key(f"culprits.{observation.value}", OBSERVER_VERSION, observed, judging.METHOD)
    bench.ledger.put_result(key, dump(Culprits(judged.culprits)), lease)


def _report(observation: Observation, judged: judging.Judged, reused: bool) -> StepReport:
    worst = worst_of(that_tell(judged.checks))
    return StepReport(
        observation.value,
        f"{worst.verdict.value}: {worst.reason}",
        reused,
        tuple(check_row(check) for check in judged.checks),
        culprit_notes(judged),
        worst.verdict,
    )


def culprit_notes(judged: judging.Judged) -> tuple[str, ...]:
    """Where faults start, a line each."""
    return tuple(
        f"culprit: {item.module} ({item.operator}){'' if item.rank is None else f' on rank {item.rank}'}"
        f" {item.error:.3g} > {item.tolerance:.3g}"
        for item in judged.culprits
    )


def check_row(check: Check) -> dict[str, str | int | float | None]:
    """A check as a table row."""
    return {
        "check": check.check,
        "verdict": check.verdict.value,
        "measured": check.measured,
        "tolerance": check.tolerance,
        "n": check.n,
        "reason": check.reason,
    }


def operators_step(bench: Bench, lease: Lease) -> StepReport:
    """Each distinct operator of a real forward against float64."""
    return observe(bench, lease, Observation.OPERATORS)


def not_applicable(bench: Bench, lease: Lease, observation: Observation, rung: str, reason: str) -> StepReport:
    """Record an observation's checks as not run, and why."""
    checks = judging.not_run(observation, rung, reason)
    for check in checks:
        bench.ledger.put_check(check, lease)
    rows = tuple(check_row(check) for check in checks)
    return StepReport(observation.value, f"not_run: {reason}", table=rows, verdict=Verdict.NOT_RUN)


def headless(bench: Bench, lease: Lease) -> str | None:
    """Why the model writes no text; None where it has a language head."""
    spec = full_structure(bench, lease).noun
    causal = any(mixer.causal for layer in spec.layers for mixer in layer.mixers) or not spec.layers
    return None if writes_text(spec.architecture, causal=causal) else without_head(spec.architecture)


def _of_text(bench: Bench, lease: Lease, observation: Observation) -> StepReport:
    """An observation that needs a language head; not run, and why, for a model without one."""
    reason = headless(bench, lease)
    if reason is not None:
        return not_applicable(bench, lease, observation, str(Degrees()), reason)
    return observe(bench, lease, observation)


def layers_step(bench: Bench, lease: Lease) -> StepReport:
    """Each layer three ways, those of towers too; what has layers beside them says that they were not run."""
    spec = full_structure(bench, lease).noun
    reports = [observe(bench, lease, Observation.LAYERS)]
    if spec.towers:
        reports.append(observe(bench, lease, Observation.TOWERS))
    beside = beside_checks(spec, str(Degrees()))
    for check in beside:
        bench.ledger.put_check(check, lease)
    worst = min(reports, key=lambda report: SEVERITY.index(report.verdict or Verdict.PASS))
    rows = [row for report in reports for row in report.table]
    notes = tuple(note for report in reports for note in report.notes)
    return replace(worst, step=reports[0].step, table=(*rows, *(check_row(check) for check in beside)), notes=notes)


def decoding_step(bench: Bench, lease: Lease) -> StepReport:
    """Each layer at positions behind a prompt, with a cache."""
    return _of_text(bench, lease, Observation.DECODING)


def perplexity_step(bench: Bench, lease: Lease) -> StepReport:
    """Perplexity of the packaged text; a model without a language head has none."""
    return _of_text(bench, lease, Observation.PERPLEXITY)


def caches_step(bench: Bench, lease: Lease) -> StepReport:
    """Caches in 8 bits against the native one."""
    return _of_text(bench, lease, Observation.CACHES)


def planned_cache_step(bench: Bench, lease: Lease) -> StepReport:
    """The same where the plan keeps its cache in 8 bits; a format that no plan has chosen says nothing about the model."""
    plan = exact_plan(bench, lease).noun.plan
    chosen = plan.choices.cache_dtype if plan is not None else None
    if chosen in EIGHT_BITS:
        return caches_step(bench, lease)
    return StepReport(Observation.CACHES.value, f"the plan's cache is {chosen or 'the native one'}: nothing is lost in it")


def training_step(bench: Bench, lease: Lease) -> StepReport:
    """A few steps of a fine-tune, full and with adapters, and the backward of every layer."""
    return _of_text(bench, lease, Observation.TRAINING)


def generation_step(bench: Bench, lease: Lease) -> StepReport:
    """Load, preprocess, forward, postprocess: a real completion, timed; embeddings of a model without a language head."""
    reason = headless(bench, lease)
    if reason is None:
        return observe(bench, lease, Observation.GENERATION)
    for check in judging.not_run(Observation.GENERATION, str(Degrees()), reason):
        if check.check not in (CheckName.MEMORY_PEAK.value,):
            bench.ledger.put_check(check, lease)
    return observe(bench, lease, Observation.ENCODING)


def tasks_step(bench: Bench, lease: Lease) -> StepReport:
    """The shipped downstream tasks, answered by target and reference."""
    reason = _untrained(bench, lease) if bench.tasks else "downstream tasks are switched off (DAYZERO_TASKS)"
    if reason is not None:
        return not_applicable(bench, lease, Observation.TASKS, str(Degrees()), reason)
    return _of_text(bench, lease, Observation.TASKS)


def _untrained(bench: Bench, lease: Lease) -> str | None:
    """Why questions would show nothing: text surprises the reference as if all words were alike. None: it does not, or nobody
    measured."""
    words = full_structure(bench, lease).noun.vocabulary_size
    for check in bench.ledger.checks(lease.adaptation_id):
        surprise = check.numbers.get("perplexity_native") if check.check == CheckName.MODEL_PERPLEXITY.value else None
        if isinstance(surprise, int | float) and words is not None and surprise > KNOWS_NOTHING * words:
            return (
                f"the reference's perplexity is {surprise:.0f} with {words:,} tokens to choose from: it has learned nothing yet"
            )
    return None
