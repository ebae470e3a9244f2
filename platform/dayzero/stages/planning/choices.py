"""What a plan chooses beside its degrees, from what the workload allows and the platform supports."""

from collections.abc import Iterator

from dayzero.domain.findings import Finding
from dayzero.domain.planning import Choices, Degrees, Objective, Workload
from dayzero.domain.platforms import PlatformProfile
from dayzero.stages.memory.state_of_sequence import cache_element_bytes

CHUNKS = (2048, 8192)
"""Tokens of prefill in one step that are tried beside the whole prompt (chunked prefill, Sarathi-Serve, arXiv 2403.02310)."""
_WHOLE_PROMPT = 8192
_ARITHMETIC = {"fp8": "float8", "float8_e4m3fn": "float8", "float8_e5m2": "float8", "int8": "int8"}
_MICRO_BATCHES = (1, 2, 4)
_VIRTUAL_STAGES = (1, 2, 4)


def choices_for(workload: Workload, profile: PlatformProfile) -> tuple[Choices, ...]:
    """Every combination to judge; the widest plan keeps to what verification runs: whole prompts, and the native cache unless
    another one is named."""
    dtypes: list[str | None] = [dtype for dtype in workload.cache_dtypes if cache_supported(dtype, profile)]
    if workload.objective is Objective.WIDEST:
        return tuple(Choices(cache_dtype=dtype) for dtype in dtypes or [None])
    if workload.training is not None:
        # Sequence parallelism moves as many bytes (an all-reduce is a reduce-scatter and an all-gather) and needs less memory:
        # of plans that are equally fast the one without comes first (Korthikanti et al., arXiv 2205.05198, section 4.2.2).
        return tuple(Choices(micro_batch=size, virtual_stages=pieces, sequence_parallel=cut)
                     for size in _MICRO_BATCHES for pieces in _VIRTUAL_STAGES for cut in (False, True))  # fmt: skip
    return tuple(Choices(cache_dtype=dtype, chunk_tokens=chunk) for dtype in dtypes or [None] for chunk in _chunks(workload))


def _chunks(workload: Workload) -> Iterator[int | None]:
    prompt = max(1, workload.context_tokens - workload.generated_tokens)
    yield from (chunk for chunk in CHUNKS if chunk < prompt)
    if prompt <= _WHOLE_PROMPT:
        yield None


def cache_supported(dtype: str, profile: PlatformProfile) -> bool:
    """Whether nothing speaks against a cache of that dtype: a source that says so, or a list of dtypes without it.
    BadInputError for a dtype that is no cache dtype."""
    cache_element_bytes(dtype)
    return why_not(dtype, profile) is None


def why_not(dtype: str, profile: PlatformProfile) -> str | None:
    """What speaks against a dtype of storage: a source that says so, or a list of dtypes without its arithmetic."""
    arithmetic = _ARITHMETIC.get(dtype, dtype)
    said = profile.unsupported_dtypes.get(arithmetic)
    if said is not None:
        return str(said.value)
    taken = not profile.dtypes or arithmetic in profile.dtypes or arithmetic == "float32"
    return None if taken else "it is not among the dtypes that the profile names"


def choice_findings(workload: Workload, profile: PlatformProfile) -> Iterator[Finding]:
    """Which of the workload's cache dtypes the platform cannot take."""
    for dtype in workload.cache_dtypes:
        if (why := why_not(dtype, profile)) is not None:
            yield Finding("plan.cache_dtype", dtype, f"{profile.slug} takes no {dtype} cache: {why}")


def sensible(degrees: Degrees, choices: Choices, layers: int) -> bool:
    """Whether the choice differs from a simpler one under these degrees: pieces of a pipeline need stages and layers, norms cut
    by tp more than one of it."""
    if choices.sequence_parallel and degrees.tp == 1:
        return False
    if choices.virtual_stages == 1:
        return True
    return degrees.pp > 1 and layers % (degrees.pp * choices.virtual_stages) == 0
