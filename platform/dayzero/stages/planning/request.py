"""Requests that make no sense are refused in one sentence, before anything is judged."""

from dayzero.domain.planning import Degrees, Training, Workload
from dayzero.domain.platforms import PlatformProfile
from dayzero.errors import BadInputError

MAX_DEVICES = 4096
_MOST_TOKENS = 1 << 30
_MOST_SEQUENCES = 1 << 24


def check_request(profile: PlatformProfile, workload: Workload, devices: int, fixed: Degrees | None) -> None:
    """BadInputError for devices, degrees, a workload or a topology that cannot be."""
    if not 1 <= devices <= MAX_DEVICES:
        raise BadInputError(f"{devices} devices cannot be planned for; give from 1 to {MAX_DEVICES}.")
    if fixed is not None and min(fixed.tp, fixed.pp, fixed.ep, fixed.dp, fixed.cp, fixed.etp) < 1:
        more = "".join(f", {name} {value}" for name, value in (("cp", fixed.cp), ("etp", fixed.etp)) if value != 1)
        raise BadInputError(f"tp {fixed.tp}, pp {fixed.pp}, ep {fixed.ep}, dp {fixed.dp}{more}: every degree is at least 1.")
    _check_workload(workload)
    _check_topology(profile)


def _check_workload(workload: Workload) -> None:
    whole = (("context", workload.context_tokens, _MOST_TOKENS, "tokens"),
             ("concurrency", workload.concurrency, _MOST_SEQUENCES, "sequences"))  # fmt: skip
    for name, value, most, unit in whole:
        if not 1 <= value <= most:
            raise BadInputError(f"A {name} of {value} {unit} cannot be planned for.", remedy=f"Give from 1 to {most}.")
    if workload.output_tokens is not None and not 1 <= workload.output_tokens <= workload.context_tokens:
        raise BadInputError(f"{workload.output_tokens} generated tokens do not fit in a context of {workload.context_tokens}.",
                            remedy="Give at least 1, and no more than the context.")  # fmt: skip
    if workload.redundant_experts < 0:
        raise BadInputError(f"{workload.redundant_experts} redundant experts cannot be.", remedy="Give 0 or more.")
    for name, figure in (("rate", workload.rate_per_s), ("time to first token", workload.ttft_s),
                         ("time per token", workload.tpot_s)):  # fmt: skip
        if figure is not None and not 0 < figure < 1e9:
            raise BadInputError(f"A {name} of {figure} cannot be planned for.", remedy="Give a number above 0.")
    if workload.training is not None:
        _check_training(workload.training)


def _check_training(training: Training) -> None:
    if not 1 <= training.sequence_tokens <= training.tokens_per_step <= _MOST_TOKENS:
        raise BadInputError(f"{training.tokens_per_step} tokens a step in sequences of {training.sequence_tokens} is none.",
                            remedy="A step has at least one sequence, a sequence at least one token.")  # fmt: skip
    if odd := training.tokens_per_step % training.sequence_tokens:
        fewer = training.tokens_per_step - odd
        raise BadInputError(
            f"{training.tokens_per_step:,} tokens a step are no whole number of sequences of {training.sequence_tokens:,}.",
            remedy=f"Ask for {fewer:,} or {fewer + training.sequence_tokens:,}.",
        )
    if training.zero not in (0, 1, 2, 3):
        raise BadInputError(f"There is no ZeRO stage {training.zero}.", remedy="Give 0, 1, 2 or 3.")
    if training.lora_rank is not None and training.lora_rank < 1:
        raise BadInputError(f"A LoRA rank of {training.lora_rank} cannot be.", remedy="Give 1 or more.")


def _check_topology(profile: PlatformProfile) -> None:
    inner = None
    for domain in profile.link_domains:
        if domain.devices < 1:
            raise BadInputError(f"{profile.slug}: link domain {domain.name} joins {domain.devices} devices.",
                                remedy="Give at least 1.")  # fmt: skip
        if inner is not None and (domain.devices < inner.devices or domain.devices % inner.devices):
            raise BadInputError(f"{profile.slug}: {domain.name} joins {domain.devices} devices, no multiple of {inner.devices} "
                                f"({inner.name}).", remedy="Domains nest, the smallest first.")  # fmt: skip
        inner = domain
    node = profile.devices_per_node
    if node is not None and (node.value < 1 or node.value != int(node.value)):
        raise BadInputError(f"{profile.slug}: a node has {node.value} devices.", remedy="Give a whole number of at least 1.")
