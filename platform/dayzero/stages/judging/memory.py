"""Verdict on the memory model: what was predicted for each rank against what it took, item by item."""

from collections.abc import Mapping

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.observations import CheckName, MemoryObserved, RankMemory
from dayzero.domain.planning import Choices, Workload
from dayzero.domain.platforms import PlatformProfile
from dayzero.domain.verdict import Check, CheckLayer, Grade, Measurement, Verdict
from dayzero.stages.layout.laying import coordinates_of
from dayzero.stages.memory.error import ERROR
from dayzero.stages.memory.ranks import MemoryModel
from dayzero.stages.memory.step import EAGER, LIBRARY

TOLERANCE = 0.15
"""Largest relative error of a rank's predicted peak."""

SMALL_BYTES = 256 << 20
"""Peaks below this are not judged: allocators, threads and code that is loaded late weigh as much as the model."""

TINY_BYTES = SMALL_BYTES // 2
"""Where no rank's weights come to this, nothing is run: whatever it took, it would not be judged."""

Predicted = Mapping[str, int]


def too_small_to_run(weights: tuple[int, ...], rung: str, tiny_bytes: int = TINY_BYTES) -> Check | None:
    """The check of a model that need not be run for its memory; None when it is large enough, or its weights are not known."""
    if not weights or max(weights) >= tiny_bytes:
        return None
    reason = (f"no rank of {rung} holds more than {max(weights):,} bytes of weights; below {tiny_bytes:,} the process's own "
              "memory weighs as much as the model")  # fmt: skip
    return Check(CheckLayer.MEMORY_PARALLELISM, CheckName.MEMORY_MODEL.value, rung, Verdict.NOT_RUN, Grade.PREDICTED, reason,
                 tolerance=TOLERANCE, numbers={"most_weights_bytes": max(weights), "tiny_bytes": tiny_bytes})  # fmt: skip


def predicted_memory(
    spec: ModelSpec, profile: PlatformProfile, observed: MemoryObserved, weights: tuple[int, ...]
) -> tuple[Predicted, ...]:
    """What the model says of the observed run: one sequence of that length, prefilled whole, by the library's own kernels.

    `weights` are each rank's planned bytes. What the library's cache allocates beyond the need is an item of its own.
    """
    context = observed.prompt_tokens + observed.new_tokens
    workload = Workload(context_tokens=context, output_tokens=observed.new_tokens)
    model = MemoryModel(spec, profile, workload, EAGER if observed.attention == "eager" else LIBRARY)
    predicted = []
    for rank, weight_bytes in enumerate(weights):
        stage = coordinates_of(rank, observed.degrees).pp
        items = dict(model.rank_items(observed.degrees, Choices(cache_dtype=observed.dtype), stage, weight_bytes))
        items["state_beyond"] = model.library_beyond(observed.degrees, Choices(cache_dtype=observed.dtype), stage)
        predicted.append({name: size for name, size in items.items() if not name.startswith("host_")})
    return tuple(predicted)


def memory_check(
    observed: MemoryObserved, predicted: tuple[Predicted, ...], rung: str, evidence: tuple[str, ...] = ()
) -> tuple[Check, tuple[Measurement, ...]]:
    """The worst rank's predicted peak against its own; relative errors of every rank and item as measurements."""
    pairs = [(rank, predicted[rank.rank]) for rank in observed.ranks if rank.rank < len(predicted)]
    measurements = tuple(one for rank, items in pairs for one in _errors(observed, rank, items))
    verdict, reason = Verdict.NOT_RUN, f"no rank of {rung} was measured"
    worst: tuple[RankMemory, Predicted] | None = None
    if pairs:
        worst = max(pairs, key=lambda pair: abs(_error(sum(pair[1].values()), pair[0].peak_bytes)))
        verdict, reason = _verdict(*worst)
    error = None if worst is None else _error(sum(worst[1].values()), worst[0].peak_bytes)
    check = Check(
        CheckLayer.MEMORY_PARALLELISM,
        CheckName.MEMORY_MODEL.value,
        rung,
        verdict,
        Grade.MEASURED,
        reason,
        measured=None if error is None else abs(error),
        tolerance=TOLERANCE,
        unit="relative error of the predicted peak",
        n=len(pairs),
        evidence=evidence,
        numbers={} if worst is None else _numbers(*worst),
    )
    return check, measurements


def _verdict(rank: RankMemory, items: Predicted) -> tuple[Verdict, str]:
    whole = sum(items.values())
    said = f"rank {rank.rank} took {rank.peak_bytes:,} bytes, {whole:,} were predicted ({_error(whole, rank.peak_bytes):+.1%})"
    if "activations" not in items:
        return Verdict.NOT_RUN, f"{said}; of this architecture only weights are predicted"
    if not rank.exact:
        return Verdict.ERROR, f"{said}; this kernel cannot tell the peak of the run from that of the loading"
    if max(rank.peak_bytes, whole) < SMALL_BYTES:
        return Verdict.NOT_RUN, f"{said}; below {SMALL_BYTES:,} bytes the process's own memory weighs as much as the model"
    return (Verdict.PASS if abs(_error(whole, rank.peak_bytes)) <= TOLERANCE else Verdict.FAIL), said


def _error(predicted: int, measured: int) -> float:
    return predicted / measured - 1 if measured else (0.0 if not predicted else 1.0)


def _errors(observed: MemoryObserved, rank: RankMemory, items: Predicted) -> tuple[Measurement, ...]:
    """Relative errors: of the peak, and of the items that can be measured by themselves."""
    kept = items.get("state", 0) + items.get("state_beyond", 0)
    pairs = [("peak", sum(items.values()), rank.peak_bytes), ("weights", items.get("weights", 0), rank.weight_bytes)]
    if "state" in items:
        pairs.append(("state", kept, rank.state_bytes))
    conditions: dict[str, int | float | str] = {
        "plan": str(observed.degrees), "rank": rank.rank, "tokens": observed.prompt_tokens, "dtype": observed.dtype,
    }  # fmt: skip
    return tuple(
        Measurement(
            ERROR,
            _error(predicted, measured),
            "1",
            {**conditions, "item": item, "predicted_bytes": predicted, "measured_bytes": measured},
        )
        for item, predicted, measured in pairs
        if measured and (item != "peak" or max(predicted, measured) >= SMALL_BYTES)
    )


def _numbers(rank: RankMemory, items: Predicted) -> dict[str, int | float | str | None]:
    measured = {"weights": rank.weight_bytes, "state": rank.state_bytes, "peak": rank.peak_bytes,
                "load_peak": rank.load_peak_bytes, "baseline": rank.baseline_bytes}  # fmt: skip
    return {
        "rank": rank.rank,
        **{f"predicted_{name}_bytes": size for name, size in items.items()},
        **{f"measured_{name}_bytes": size for name, size in measured.items()},
    }
