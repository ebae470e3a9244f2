"""Defects that stand in the modelling library's own parallel runs are found without being told where; sound runs pass."""

from pathlib import Path

import pytest

import library_parallel as library
from dayzero.adapters.runners.isolated import SubprocessRunner
from dayzero.domain.observations import CheckName
from dayzero.domain.planning import Degrees
from dayzero.domain.verdict import Verdict

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
LOGITS, PRINTS, SHARE = CheckName.PARALLEL_LOGITS, CheckName.PARALLEL_FINGERPRINTS, CheckName.PARALLEL_SHARE


def test_jamba_in_two_stages_is_wrong_from_the_hand_over_on(runner: SubprocessRunner, tmp_path: Path) -> None:
    found = library.run(runner, "jamba", library.PP2, tmp_path / "model").checks
    assert found[LOGITS.value].verdict is found[PRINTS.value].verdict is Verdict.FAIL
    assert found[PRINTS.value].reason.startswith("what model.layers.4 is given, though what the layers before it returned is")
    assert "on rank 1" in found[PRINTS.value].reason
    assert found[SHARE.value].verdict is Verdict.PASS


@pytest.mark.parametrize("family", ["gpt_oss", "falcon_h1"])
def test_plans_that_hardly_shard_miss_their_share_and_nothing_else(
    runner: SubprocessRunner, tmp_path: Path, family: str
) -> None:
    found = library.run(runner, family, library.TP2, tmp_path / "model").checks
    assert (found[LOGITS.value].verdict, found[PRINTS.value].verdict) == (Verdict.PASS, Verdict.PASS)
    assert found[SHARE.value].verdict is Verdict.FAIL and (found[SHARE.value].measured or 0) > 0.8


@pytest.mark.parametrize(
    ("family", "degrees", "said"),
    [("gpt2", library.TP2, "has no `tp_plan`"), ("nemotron_h", library.PP2, "'PipelineIdentityLayer' object has no attribute")],
)
def test_what_cannot_run_is_error_with_its_reason(
    runner: SubprocessRunner, tmp_path: Path, family: str, degrees: Degrees, said: str
) -> None:
    found = library.run(runner, family, degrees, tmp_path / "model")
    assert found.verdict is Verdict.ERROR and said in found.reason


@pytest.mark.parametrize(("family", "degrees"), [("olmo2", library.TP2), ("qwen3_moe", library.EP2), ("llama", library.PP2)])
def test_sound_runs_pass(runner: SubprocessRunner, tmp_path: Path, family: str, degrees: Degrees) -> None:
    found = library.run(runner, family, degrees, tmp_path / "model")
    assert found.verdict is Verdict.PASS, found.reason
