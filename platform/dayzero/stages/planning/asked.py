"""From what a user asks of a plan to the workload that is planned for."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.findings import Finding
from dayzero.domain.planning import Objective, PlanTemplate, Training, Workload
from dayzero.errors import BadInputError


@dataclass(frozen=True, slots=True)
class Asked:
    """What was said of a plan; None (and nothing of dtypes) was left open. Fields as those of Workload and Training."""

    context_tokens: int | None = None
    output_tokens: int | None = None
    concurrency: int | None = None
    rate_per_s: float | None = None
    ttft_s: float | None = None
    tpot_s: float | None = None
    objective: Objective | None = None
    cache_dtypes: tuple[str, ...] = ()
    redundant_experts: int | None = None
    tokens_per_step: int | None = None
    sequence_tokens: int | None = None
    lora_rank: int | None = None
    weight_dtypes: tuple[str, ...] = ()


def workload_of(asked: Asked, template: PlanTemplate | None, *, devices_given: bool) -> Workload | None:
    """The workload: the template's, with what was said in its place; None when nothing was asked, so that the plan is the one
    that verification climbs to.

    Without template and objective: the most throughput of the devices that were given, or the fewest devices that will do.
    BadInputError: parts of a training request without the tokens of its step.
    """
    said = {name: value for name in _OF_WORKLOAD if (value := getattr(asked, name)) not in (None, ())}
    if template is None and not said and asked.tokens_per_step is None and asked.sequence_tokens is asked.lora_rank is None:
        return None
    usual = Objective.THROUGHPUT if devices_given or asked.tokens_per_step is not None else Objective.FEWEST_DEVICES
    workload = replace(template.workload if template else Workload(objective=usual), **said)
    return replace(workload, training=_training(asked, workload.training))


def asked_findings(spec: ModelSpec, workload: Workload) -> Iterator[Finding]:
    """What a request asks of the model that its publisher does not promise."""
    longest = spec.context_tokens
    tokens = workload.training.sequence_tokens if workload.training else workload.context_tokens
    if longest is not None and tokens > longest:
        message = f"sequences of {tokens} tokens are longer than the {longest} that the configuration states"
        yield Finding("plan.context", "context", message, numbers={"asked_tokens": tokens, "stated_tokens": longest})


_OF_WORKLOAD = ("context_tokens", "output_tokens", "concurrency", "rate_per_s", "ttft_s", "tpot_s", "objective", "cache_dtypes",
                "weight_dtypes", "redundant_experts")  # fmt: skip
_OF_TRAINING = ("tokens_per_step", "sequence_tokens", "lora_rank")


def _training(asked: Asked, known: Training | None) -> Training | None:
    said = {name: value for name in _OF_TRAINING if (value := getattr(asked, name)) is not None}
    if not said:
        return known
    if known is None and asked.tokens_per_step is None:
        raise BadInputError("the tokens of one training step are not said.", remedy="Give --tokens-per-step, or a template.")
    if known is not None:
        return replace(known, **said)
    length = min(asked.sequence_tokens or 4096, asked.tokens_per_step or 4096)
    return Training(**{**said, "sequence_tokens": length})
