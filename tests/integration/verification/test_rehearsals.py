"""Rehearsals in real child processes: dummy weights of a reduced architecture through the real observations."""

from dataclasses import replace
from pathlib import Path

import pytest

from dayzero.adapters.runners.isolated import SubprocessRunner
from dayzero.domain.adaptation import Purpose
from dayzero.domain.verdict import Verdict
from dayzero.steps import rehearsing
from fakes_bench import Made, make_bench

pytestmark = pytest.mark.torch
CONFIGS = Path(__file__).parents[2] / "golden" / "configs"


def rehearsal(folder: Path, config: bytes, runner: SubprocessRunner) -> Made:
    made = make_bench(folder, config, weights=None, purpose=Purpose.PRESTAGE)
    made.bench = replace(made.bench, runner=runner)
    return made


@pytest.mark.parametrize("name", ["tiny_deepseek_v3", "tiny_qwen3_moe"])
def test_a_sound_architecture_passes_every_check_of_its_rehearsal(name: str, tmp_path: Path, runner: SubprocessRunner) -> None:
    made = rehearsal(tmp_path, (CONFIGS / f"{name}.json").read_bytes(), runner)
    steps = (rehearsing.operators_step, rehearsing.layers_step, rehearsing.generation_step)
    reports = [step(made.bench, made.lease) for step in steps]
    assert [report.verdict for report in reports] == [Verdict.PASS] * 3, [report.headline for report in reports]
    checks = {check.check: check for check in made.ledger.checks("adaptation-1")}
    assert checks["rehearsal.operators.float64"].n and checks["rehearsal.layers.three_way"].n
    assert all(check.evidence for check in checks.values())
    again = [step(made.bench, made.lease) for step in steps]
    assert [report.reused for report in again] == [True] * 3


def test_layers_that_take_the_reference_path_eagerly_are_left_for_the_day(tmp_path: Path, runner: SubprocessRunner) -> None:
    """Gemma 2 has no fused attention and no experts: uncompiled, its target is its reference, which shows nothing."""
    made = rehearsal(tmp_path, (CONFIGS / "tiny_gemma2.json").read_bytes(), runner)
    report = rehearsing.layers_step(made.bench, made.lease)
    assert report.verdict is Verdict.NOT_RUN and "reference's own path" in report.headline


def test_what_the_library_refuses_is_error_with_its_sentence(tmp_path: Path, runner: SubprocessRunner) -> None:
    config = (CONFIGS / "tiny_llama.json").read_bytes().replace(b'"silu"', b'"no_such_activation"')
    report = rehearsing.layers_step((made := rehearsal(tmp_path, config, runner)).bench, made.lease)
    assert report.verdict is Verdict.ERROR
    assert "no_such_activation" in report.headline
