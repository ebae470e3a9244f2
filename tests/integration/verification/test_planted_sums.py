"""A sum over ranks that is lost or taken twice on one rank is named with its layer, its module and that rank."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from verification_shards import shard_model

from dayzero.adapters.runners.isolated import SubprocessRunner
from dayzero.codec import load
from dayzero.domain.observations import CheckName
from dayzero.domain.observed_parallel import ParallelObserved
from dayzero.domain.planning import Degrees
from dayzero.domain.runs import Observation, RunRequest
from dayzero.domain.verdict import Check, Verdict
from dayzero.stages.judging.checks import Judged, judge
from observing import LIMITS, completed

pytestmark = pytest.mark.torch
TP2, EP2, PP2 = Degrees(tp=2), Degrees(tp=2, ep=2), Degrees(pp=2)


def observed(
    runner: SubprocessRunner, model: Path, degrees: Degrees, shards: Path, **options: int
) -> tuple[ParallelObserved, Judged]:
    shard_model(model, shards, degrees)
    request = RunRequest(Observation.PARALLEL, "cpu", str(model), str(shards), degrees, options=options)
    outcome = completed(runner, request)
    return load(ParallelObserved, outcome.document), judge(request, outcome, load, LIMITS)


def named(result: Judged, name: CheckName) -> Check:
    return next(check for check in result.checks if check.check == name.value)


@pytest.mark.parametrize(
    ("kind", "degrees", "options", "module"),
    [
        ("llama-tiny", TP2, {"skip_all_reduce": 3}, "model.layers.3.self_attn.o_proj"),
        ("deepseek-tiny", EP2, {"double_all_reduce": 2}, "model.layers.2.self_attn.o_proj"),
    ],
)
def test_the_rank_is_named(
    models: Mapping[str, Path], runner: SubprocessRunner, tmp_path: Path, kind: str, degrees: Degrees,
    options: dict[str, int], module: str,
) -> None:  # fmt: skip
    found, result = observed(runner, models[kind], degrees, tmp_path / "shards", planted_rank=1, **options)
    check = named(result, CheckName.PARALLEL_FINGERPRINTS)
    assert (check.verdict, named(result, CheckName.PARALLEL_LOGITS).verdict) == (Verdict.FAIL, Verdict.FAIL)
    (culprit,) = result.culprits
    assert (culprit.module, culprit.operator, culprit.rank) == (module, "all_reduce", 1)
    assert culprit.tokens == (0, 7)
    assert found.replay is not None and found.replay.module == module
    alone = {row.rank: row.returned.rms_relative or 0.0 for row in found.replay.ranks}
    assert alone[0] < 1e-6 < 0.05 < alone[1], "the operator alone: right on rank 0, wrong on rank 1"
    assert "alone it is off by" in check.reason


@pytest.mark.parametrize(("kind", "degrees"), [("llama-tiny", PP2), ("deepseek-tiny", EP2)])
def test_sound_ranks_agree_in_every_module_and_hold_their_share(
    models: Mapping[str, Path], runner: SubprocessRunner, tmp_path: Path, kind: str, degrees: Degrees
) -> None:
    found, result = observed(runner, models[kind], degrees, tmp_path / "shards")
    assert [check.verdict for check in result.checks] == [Verdict.PASS] * 3, [check.reason for check in result.checks]
    assert found.prints is not None and found.replay is None and not result.culprits
    check = named(result, CheckName.PARALLEL_FINGERPRINTS)
    assert check.n is not None and check.n > 12 * 4
    share = named(result, CheckName.PARALLEL_SHARE)
    assert share.measured is not None and 0.5 <= share.measured < 0.75


def test_ranks_that_hold_everything_miss_their_share(
    models: Mapping[str, Path], runner: SubprocessRunner, tmp_path: Path
) -> None:
    model = models["llama-tiny"]
    request = RunRequest(Observation.PARALLEL, "cpu", str(model), degrees=Degrees(tp=2), options={"engine": "transformers"})
    outcome = completed(runner, request)
    result = judge(request, outcome, load, LIMITS)
    assert named(result, CheckName.PARALLEL_LOGITS).verdict is Verdict.PASS
    assert named(result, CheckName.PARALLEL_FINGERPRINTS).verdict is Verdict.PASS
