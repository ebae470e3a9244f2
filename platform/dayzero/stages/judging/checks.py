"""From what a run observed to checks, measurements and culprits. Verdicts come from numbers and from nothing else.

    judged = judge(request, outcome, codec.load, limits, evidence=(sha256_of_document,))
    for check in judged.checks: ledger.put_check(check, lease)

One call takes any outcome: a run that did not complete gives the same checks, as error or fail with the run's own reason.
"""

from dataclasses import dataclass
from typing import Protocol, TypeVar

from dayzero.domain.observations import (
    CheckName,
    GenerationObserved,
    LayerErrors,
    OperatorErrors,
    PerplexityObserved,
)
from dayzero.domain.observed_caches import CachesObserved
from dayzero.domain.observed_decoding import DecodeErrors
from dayzero.domain.observed_encoding import EncodingObserved
from dayzero.domain.observed_parallel import ParallelObserved
from dayzero.domain.observed_tasks import TasksObserved
from dayzero.domain.observed_towers import TowersObserved
from dayzero.domain.observed_training import TrainingObserved
from dayzero.domain.runs import Observation, RunEnd, RunLimits, RunOutcome, RunRequest
from dayzero.domain.verdict import Check, CheckLayer, Culprit, Grade, Measurement, Verdict
from dayzero.errors import BadInputError
from dayzero.stages.judging import caches as judging_caches
from dayzero.stages.judging import decoding as judging_decoding
from dayzero.stages.judging import encodings as judging_encodings
from dayzero.stages.judging import models as judging_models
from dayzero.stages.judging import operators as judging_operators
from dayzero.stages.judging import parallel as judging_parallel
from dayzero.stages.judging import parts as judging_parts
from dayzero.stages.judging import runs as judging_runs
from dayzero.stages.judging import sampled as judging_sampled
from dayzero.stages.judging import training as judging_training
from dayzero.stages.judging.tasks import tasks_check
from dayzero.stages.judging.towers import towers_check

METHOD = "three-way-2"
"""Version of the method; a change of limits or of what is compared is a new one."""

CHECKS_OF = {
    Observation.OPERATORS: (
        (CheckLayer.PRECISION, CheckName.OPERATORS_FLOAT64),
        (CheckLayer.PRECISION, CheckName.OPERATORS_DISTRIBUTIONS),
    ),
    Observation.LAYERS: ((CheckLayer.PRECISION, CheckName.LAYERS_THREE_WAY),),
    Observation.TOWERS: ((CheckLayer.PRECISION, CheckName.LAYERS_TOWERS),),
    Observation.DECODING: ((CheckLayer.PRECISION, CheckName.DECODING_THREE_WAY),),
    Observation.PARALLEL: (
        (CheckLayer.MEMORY_PARALLELISM, CheckName.PARALLEL_LOGITS),
        (CheckLayer.MEMORY_PARALLELISM, CheckName.PARALLEL_FINGERPRINTS),
        (CheckLayer.MEMORY_PARALLELISM, CheckName.PARALLEL_SHARE),
    ),
    Observation.PERPLEXITY: (
        (CheckLayer.PRECISION, CheckName.MODEL_PERPLEXITY),
        (CheckLayer.PRECISION, CheckName.MODEL_LOGITS),
    ),
    Observation.MEMORY: ((CheckLayer.MEMORY_PARALLELISM, CheckName.MEMORY_MODEL),),
    Observation.GENERATION: (
        (CheckLayer.END_TO_END, CheckName.GENERATION),
        (CheckLayer.END_TO_END, CheckName.REFERENCE_TEXT),
        (CheckLayer.MEMORY_PARALLELISM, CheckName.MEMORY_PEAK),
    ),
    Observation.ENCODING: (
        (CheckLayer.PRECISION, CheckName.MODEL_EMBEDDINGS),
        (CheckLayer.END_TO_END, CheckName.EMBEDDING),
        (CheckLayer.MEMORY_PARALLELISM, CheckName.MEMORY_PEAK),
    ),
    Observation.TASKS: ((CheckLayer.END_TO_END, CheckName.TASKS),),
    Observation.CACHES: tuple((CheckLayer.PRECISION, name) for name in judging_caches.NAMES.values()),
    Observation.TRAINING: tuple((CheckLayer.END_TO_END, name) for name in judging_training.NAMES.values()),
}
"""Which checks each observation decides."""


Noun = TypeVar("Noun")


class Load(Protocol):
    """Reads a noun from its JSON document (codec.load); BadInputError when it is none."""

    def __call__(self, noun: type[Noun], document: bytes, /) -> Noun:
        """The noun."""
        ...


@dataclass(frozen=True, slots=True)
class Judged:
    """What one outcome says: checks (always those of CHECKS_OF), measurements, culprits, and the text that was generated."""

    checks: tuple[Check, ...]
    measurements: tuple[Measurement, ...] = ()
    culprits: tuple[Culprit, ...] = ()
    sample_text: str | None = None


def judge(
    request: RunRequest,
    outcome: RunOutcome,
    load: Load,
    limits: RunLimits | None = None,
    evidence: tuple[str, ...] = (),
) -> Judged:
    """The checks of the request's observation from its outcome; `evidence` are artifacts that hold the observed figures.

    BadInputError for an observation that decides no check (STACK, MANIFEST).
    """
    if request.observation not in CHECKS_OF:
        raise BadInputError(f"{request.observation.value} decides no check.", remedy="Read its document instead.")
    rung = str(request.degrees)
    if outcome.end is not RunEnd.COMPLETED:
        return Judged(_unfinished(request, outcome, limits, rung, evidence))
    try:
        return _completed(request, outcome, load, limits, rung, evidence)
    except BadInputError as error:
        return Judged(_all(request, rung, Verdict.ERROR, f"the run's document cannot be read: {error.message}", evidence))


def _completed(
    request: RunRequest, outcome: RunOutcome, load: Load, limits: RunLimits | None, rung: str, evidence: tuple[str, ...]
) -> Judged:
    match request.observation:
        case Observation.OPERATORS:
            operators = load(OperatorErrors, outcome.document)
            check, culprits = judging_operators.operators_check(operators, rung, evidence)
            drawn, further = judging_sampled.distributions_check(operators, rung, evidence)
            named = {culprit.operator for culprit in culprits}
            rest = tuple(culprit for culprit in further if culprit.operator not in named)
            return Judged((check, drawn), culprits=(*culprits, *rest))
        case Observation.LAYERS:
            layers = load(LayerErrors, outcome.document)
            check, culprits = judging_parts.layers_check(layers, rung, evidence)
            return Judged((check,), culprits=culprits)
        case Observation.TOWERS:
            check, culprits = towers_check(load(TowersObserved, outcome.document), rung, evidence)
            return Judged((check,), culprits=culprits)
        case Observation.DECODING:
            decoding = load(DecodeErrors, outcome.document)
            check, culprits = judging_decoding.decoding_check(decoding, rung, evidence)
            return Judged((check,), culprits=culprits)
        case Observation.PERPLEXITY:
            perplexity = load(PerplexityObserved, outcome.document)
            check, measurements = judging_models.perplexity_check(perplexity, rung, evidence)
            logits = judging_caches.logits_check(perplexity, rung, evidence)
            return Judged((check, logits), measurements)
        case Observation.PARALLEL:
            parallel = load(ParallelObserved, outcome.document)
            return Judged(*judging_parallel.parallel_checks(parallel, rung, evidence))
        case Observation.ENCODING:
            return _encoded(load(EncodingObserved, outcome.document), outcome, limits, rung, evidence)
        case Observation.TASKS:
            check, measurements = tasks_check(load(TasksObserved, outcome.document), rung, evidence)
            return Judged((check,), measurements)
        case Observation.CACHES:
            caches = load(CachesObserved, outcome.document)
            return Judged(*judging_caches.cache_checks(caches, rung, evidence))
        case Observation.TRAINING:
            trained = load(TrainingObserved, outcome.document)
            checks, culprits = judging_training.training_checks(trained, rung, evidence)
            return Judged(checks, culprits=culprits)
        case _:
            generated = load(GenerationObserved, outcome.document)
            peak = max(generated.peak_rss_bytes, outcome.peak_rss_bytes or 0)
            checks = (
                judging_runs.generation_check(generated, rung, evidence),
                judging_runs.reference_text_check(generated, rung, evidence),
                judging_runs.device_peak_check(generated, rung, evidence)
                or judging_runs.peak_check(peak, limits, rung, evidence),
            )
            return Judged(checks, judging_runs.generation_measurements(generated, peak, rung), (), generated.text)


def _encoded(
    observed: EncodingObserved, outcome: RunOutcome, limits: RunLimits | None, rung: str, evidence: tuple[str, ...]
) -> Judged:
    peak, weighed = max(observed.peak_rss_bytes, outcome.peak_rss_bytes or 0), limits
    measured = peak
    if observed.device_peak_bytes is not None:
        measured = observed.device_peak_bytes
        weighed = None if observed.device_limit_bytes is None else RunLimits(0.0, observed.device_limit_bytes)
    checks = (
        judging_encodings.embeddings_check(observed, rung, evidence),
        judging_encodings.embedding_end_check(observed, rung, evidence),
        judging_runs.peak_check(measured, weighed, rung, evidence),
    )
    return Judged(checks, judging_encodings.encoding_measurements(observed, peak, rung))


def _unfinished(
    request: RunRequest, outcome: RunOutcome, limits: RunLimits | None, rung: str, evidence: tuple[str, ...]
) -> tuple[Check, ...]:
    """A crash, hang or refusal measured nothing: error. Out of memory is a measured failure where the peak is judged."""
    if request.observation is Observation.TASKS and outcome.end is RunEnd.REFUSED:
        # What tasks need beside the model (the harness, a tokenizer) is nobody's duty: without it nothing was tried.
        return _all(request, rung, Verdict.NOT_RUN, outcome.reason, evidence)
    reason = f"{request.observation.value} run {outcome.end.value.replace('_', ' ')}: {outcome.reason}"
    checks = _all(request, rung, Verdict.ERROR, reason, evidence)
    if outcome.end is not RunEnd.OUT_OF_MEMORY or all(check.check != CheckName.MEMORY_PEAK for check in checks):
        return checks
    limit = limits.memory_bytes if limits else None
    peak = Check(
        CheckLayer.MEMORY_PARALLELISM, CheckName.MEMORY_PEAK.value, rung, Verdict.FAIL, Grade.MEASURED, reason,
        measured=None if outcome.peak_rss_bytes is None else float(outcome.peak_rss_bytes),
        tolerance=None if limit is None else float(limit), unit="bytes", n=1, evidence=evidence,
    )  # fmt: skip
    return (*(check for check in checks if check.check != CheckName.MEMORY_PEAK), peak)


def _all(request: RunRequest, rung: str, verdict: Verdict, reason: str, evidence: tuple[str, ...]) -> tuple[Check, ...]:
    return tuple(
        Check(layer, name.value, rung, verdict, Grade.MEASURED, reason, evidence=evidence)
        for layer, name in CHECKS_OF[request.observation]
    )


def not_run(observation: Observation, rung: str, reason: str) -> tuple[Check, ...]:
    """The observation's checks as not_run, for one that nobody asked a runner for."""
    return _all(RunRequest(observation, ""), rung, Verdict.NOT_RUN, reason, ())
