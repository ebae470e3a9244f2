"""Verdicts on a parallel run: its logits, its fingerprints, and the share of the weights that each rank holds."""

from dayzero.domain.fingerprints import Divergence, Point, Replay, ReplayedRank
from dayzero.domain.observations import CheckName
from dayzero.domain.observed_parallel import ParallelObserved, RankObserved
from dayzero.domain.verdict import Check, CheckLayer, Culprit, Grade, Measurement, Verdict
from dayzero.stages.fingerprints.comparing import Compared, compare
from dayzero.stages.precision import limits as precision

SHARE_TOLERANCE = 0.01
"""How far a rank's parameters may lie from those of its shard files: buffers that one side counts and the other does not."""
WASTE = 0.5
"""Where no layout of ours says what a rank should hold, it may keep at most this share of what cutting should save it."""


def parallel_checks(
    observed: ParallelObserved, rung: str, evidence: tuple[str, ...] = ()
) -> tuple[tuple[Check, ...], tuple[Measurement, ...], tuple[Culprit, ...]]:
    """Every check of a parallel run, its measurements, and where it first goes wrong."""
    logits, measurements = parallel_check(observed, rung, evidence)
    prints, culprits = fingerprints_check(observed, rung, evidence)
    return (logits, prints, share_check(observed, rung, evidence)), measurements, culprits


def parallel_check(
    observed: ParallelObserved, rung: str, evidence: tuple[str, ...] = ()
) -> tuple[Check, tuple[Measurement, ...]]:
    """Logits of the ranks against float64, no further off than one process in the same dtype."""
    line = precision.mean_line(observed.target, observed.native, observed.dtype)
    if observed.degrees.world < 2 or len(observed.ranks) < 2:
        verdict, reason = Verdict.NOT_RUN, "one rank is no parallel run"
    elif observed.native.nonfinite or observed.native.rms_relative is None:
        verdict, reason = Verdict.ERROR, "one process's own logits are not finite"
    elif any(rank.tensors == 0 for rank in observed.ranks):
        verdict, reason = Verdict.ERROR, "a rank held no weights, so it shows nothing"
    elif line.stands_out:
        verdict, reason = Verdict.FAIL, f"logits of {observed.degrees} are wrong: {line.why}"
    else:
        verdict = Verdict.PASS
        reason = f"logits of {observed.degrees} from the shards are as close to {observed.reference_dtype} as one process's"
    check = Check(
        CheckLayer.MEMORY_PARALLELISM,
        CheckName.PARALLEL_LOGITS.value,
        rung,
        verdict,
        Grade.MEASURED,
        reason,
        measured=line.measured,
        tolerance=line.tolerance,
        unit="relative error of logits",
        n=observed.target.n,
        evidence=evidence,
        numbers={
            "ranks": len(observed.ranks),
            "between_ranks_and_one_process": observed.between.rms_relative,
            "one_process_error": observed.native.rms_relative,
            "top1_agreement": observed.top1_agreement,
            "largest_rank_weight_bytes": max((rank.weight_bytes for rank in observed.ranks), default=None),
            "dtype": observed.dtype,
            "tokens": observed.tokens,
        },
    )
    return check, tuple(
        Measurement(name, float(value), "bytes", {"rank": rank.rank, "plan": str(observed.degrees)})
        for rank in observed.ranks
        for name, value in (("rank_weight_bytes", rank.weight_bytes), ("rank_peak_rss_bytes", rank.peak_rss_bytes))
    )


def fingerprints_check(
    observed: ParallelObserved, rung: str, evidence: tuple[str, ...] = ()
) -> tuple[Check, tuple[Culprit, ...]]:
    """The fingerprints of every module on every rank against one process's; the first that differs is the culprit."""
    found = None if observed.prints is None else compare(observed.prints)
    first = found.divergences[0] if found is not None and found.divergences else None
    verdict, reason = _prints_verdict(observed, found)
    ratio = found.largest_share if found is not None else None
    check = Check(
        CheckLayer.MEMORY_PARALLELISM, CheckName.PARALLEL_FINGERPRINTS.value, rung, verdict, Grade.MEASURED, reason,
        measured=first.error if first is not None else None if ratio == float("inf") else ratio,
        tolerance=first.tolerance if first is not None else 1.0,
        unit="relative error of the first divergent tensor" if first is not None else "error over its tolerance",
        n=0 if found is None else found.tensors, evidence=evidence,
        numbers={} if found is None else {"divergent": len(found.divergences), "without_counterpart": found.skipped,
                                          "engine": observed.engine},
    )  # fmt: skip
    if first is None or verdict is not Verdict.FAIL:
        return check, ()
    # An error that is not a number counts as complete.
    error = 1.0 if first.error is None else first.error
    operator = None if first.point is Point.INPUT else SUM if _sums(observed, first) else None
    return check, (Culprit(first.layer, first.module, operator, error, first.tolerance, first.rank, first.tokens),)


SUM = "all_reduce"
"""The operator that is named where parts are right and their sum is not."""


def _prints_verdict(observed: ParallelObserved, found: Compared | None) -> tuple[Verdict, str]:
    if found is None:
        return Verdict.NOT_RUN, "no fingerprints were taken"
    if not found.tensors:
        return Verdict.ERROR, "no tensor of a rank could be compared with one process's"
    if not found.divergences:
        return Verdict.PASS, f"{found.tensors} tensors of {len(observed.ranks)} ranks agree with one process's"
    first = found.divergences[0]
    reason = f"{place_of(observed, first)}{_confirmed(observed.replay, first)}"
    if _refuted(observed.replay, first):
        return Verdict.ERROR, f"{reason}: its fingerprint and its tensor contradict each other, so nothing behind it is judged"
    return Verdict.FAIL, reason


def place_of(observed: ParallelObserved, first: Divergence) -> str:
    """Where the ranks first leave one process, in words."""
    error = "is not finite" if first.error is None else f"is off by {first.error:.3g}, tolerance {first.tolerance:.3g}"
    tokens = f"tokens {first.tokens[0]} to {first.tokens[1]}"
    if first.point is Point.INPUT and first.layer:
        what = f"what {first.module} is given, though what the layers before it returned is right,"
    elif first.point is Point.INPUT:
        what = f"what {first.module} is given"
    elif first.point is Point.BEFORE_SUM:
        what = f"{first.module}: the parts of all ranks together"
    elif _sums(observed, first):
        what = f"{first.module}: the sum of parts that are right"
    else:
        what = first.module
    rank = "" if first.rank is None else f" on rank {first.rank}"
    return f"{what}{rank} {error} ({tokens})"


def _sums(observed: ParallelObserved, first: Divergence) -> bool:
    """Whether the output is a sum over ranks, whose parts were found right."""
    runs = observed.prints.ranks if observed.prints is not None else ()
    return first.point is Point.OUTPUT and any(
        one.module == first.module and one.point is Point.BEFORE_SUM for run in runs for one in run.prints
    )


def _replayed(replay: Replay | None, first: Divergence) -> ReplayedRank | None:
    """The rank that the divergence names, or the worst of all, in the run of the operator alone."""
    rows = [] if replay is None else [row for row in replay.ranks if first.rank is None or row.rank == first.rank]
    return max(rows, key=lambda row: row.returned.rms_relative or 0.0, default=None)


def _refuted(replay: Replay | None, first: Divergence) -> bool:
    """Whether the operator alone is right where its fingerprint is not."""
    row = _replayed(replay, first)
    if row is None or row.returned.rms_relative is None:
        return False
    return row.returned.rms_relative <= first.tolerance and row.returned.nonfinite == 0


def _confirmed(replay: Replay | None, first: Divergence) -> str:
    row = _replayed(replay, first)
    if replay is None or row is None or row.returned.rms_relative is None:
        return ""
    how = "kept whole" if first.point is Point.INPUT else "alone"
    within = None if row.given is None or first.point is Point.INPUT else row.given.rms_relative
    given = "" if within is None else f", given an input within {within:.2g}"
    return f"; {how} it is off by {row.returned.rms_relative:.3g} from {replay.expected}{given}"


def share_check(observed: ParallelObserved, rung: str, evidence: tuple[str, ...] = ()) -> Check:
    """The parameters that each rank really held against those that it should: its shard files', or where a library cut the
    model, half-way between a fair share and all of it."""
    fullest = max(observed.ranks, key=lambda rank: rank.parameters, default=None)
    share = fullest.parameters / observed.parameters if fullest is not None and observed.parameters else None
    limit = None if fullest is None or not observed.parameters else _largest_share(observed, fullest)
    verdict, reason = _share_verdict(observed, share, limit)
    return Check(
        CheckLayer.MEMORY_PARALLELISM, CheckName.PARALLEL_SHARE.value, rung, verdict, Grade.MEASURED, reason,
        measured=share, tolerance=limit, unit="largest share of the parameters on a rank", n=len(observed.ranks),
        evidence=evidence,
        numbers={"parameters": observed.parameters, **{f"rank_{rank.rank}": rank.parameters for rank in observed.ranks[:8]}},
    )  # fmt: skip


def _largest_share(observed: ParallelObserved, rank: RankObserved) -> float:
    if rank.planned_parameters is not None:
        return rank.planned_parameters / observed.parameters * (1 + SHARE_TOLERANCE)
    fair = 1 / max(1, observed.degrees.pp * max(observed.degrees.tp, observed.degrees.ep))
    return 1 - (1 - fair) * (1 - WASTE)


def _share_verdict(observed: ParallelObserved, share: float | None, limit: float | None) -> tuple[Verdict, str]:
    if share is None or limit is None:
        return Verdict.ERROR, "nobody counted the parameters of the ranks"
    uneven = next(
        (
            rank
            for rank in observed.ranks
            if rank.planned_parameters is not None
            and abs(rank.parameters - rank.planned_parameters) > SHARE_TOLERANCE * rank.planned_parameters
        ),
        None,
    )
    if uneven is not None:
        said = f"rank {uneven.rank} held {uneven.parameters:,} parameters, its shard files hold {uneven.planned_parameters:,}"
        return Verdict.FAIL, said
    if share > limit:
        return (
            Verdict.FAIL,
            f"a rank of {observed.degrees} held {share:.1%} of the parameters, at most {limit:.1%} are its part",
        )
    return Verdict.PASS, f"no rank of {observed.degrees} held more than {share:.1%} of the parameters"
