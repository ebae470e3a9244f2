"""The bridging step: what is bridged stays bridged, runs carry it, and a crash is tried again."""

from dataclasses import replace
from pathlib import Path

import pytest

from dayzero import app
from dayzero.codec import dump
from dayzero.domain.bridges import BridgeCase, BridgeKind, BridgesObserved, Candidate, Recipe
from dayzero.domain.operators import GraphUse, Phase
from dayzero.domain.runs import Observation, RunEnd, RunOutcome
from dayzero.domain.verdict import Verdict
from dayzero.errors import DependencyError, NotFoundError
from dayzero.settings import Settings
from dayzero.steps import bridging, prestaging, verifying
from fakes_bench import FakeTracer, Made, ended, make_bench

MM = GraphUse("aten.mm.default", ("bfloat16",), "(T,72),(72,72)", Phase.PREFILL, 12, ("model.layers.*",), 1000, 10)
LACKING = GraphUse("aten.silu.default", ("bfloat16",), "(T,72)", Phase.PREFILL, 3, ("model.layers.*.mlp",), 10, 10)
PARTS = Recipe("aten.silu.default", BridgeKind.DECOMPOSITION, "torch's table")


def observed(error: float) -> RunOutcome:
    case = BridgeCase("normal", ("bfloat16",), "(24,72)", 1728, error, 0.0016, 0.3, 1.0)
    document = dump(BridgesObserved("aten.silu.default", (Candidate(PARTS, "", "source", (case,), 0.1, 0.1),)))
    return RunOutcome(RunEnd.COMPLETED, document, "", "", 1.0, None)


def made_with(folder: Path, outcome: RunOutcome) -> Made:
    return make_bench(folder, tracer=FakeTracer(uses=(MM, LACKING)), outcome=outcome)


def test_a_bridged_gap_is_gone_and_stays_gone(tmp_path: Path) -> None:
    made = made_with(tmp_path, observed(0.0017))
    assert [gap.operator for gap in prestaging.coverage(made.bench, made.lease).noun.gaps] == ["aten.silu.default"]
    report = bridging.bridge_step(made.bench, made.lease)
    assert "1 of 1 gaps bridged" in report.headline and "0 gaps left" in report.headline
    assert report.verdict is Verdict.PASS
    assert not prestaging.coverage(made.bench, made.lease).noun.gaps
    assert bridging.bridge_step(made.bench, made.lease).headline == "no graph-level gap to bridge"
    assert [request.observation for request in made.runner.ran] == [Observation.BRIDGE]
    assert made.runner.ran[0].gap is not None and made.runner.ran[0].gap.calls[0].shape_class == "(T,72)"


def test_runs_install_what_is_bridged(tmp_path: Path) -> None:
    made = made_with(tmp_path, observed(0.0017))
    assert verifying.request_for(made.bench, made.lease, Observation.LAYERS).bridges == ()
    bridging.bridge_gaps(made.bench, made.lease)
    assert verifying.request_for(made.bench, made.lease, Observation.LAYERS).bridges == (PARTS,)


def test_a_refused_bridge_stays_a_gap_that_says_why(tmp_path: Path) -> None:
    made = made_with(tmp_path, observed(0.05))
    done = bridging.bridge_gaps(made.bench, made.lease)
    assert done.bridges[0].verdict is Verdict.FAIL
    assert "relative error 0.05, tolerance 0.00781" in done.coverage.gaps[0].why
    assert bridging.bridge_step(made.bench, made.lease).verdict is Verdict.FAIL
    assert len(made.runner.ran) == 1, "a refusal is found again"


def test_a_run_that_crashed_is_an_error_and_is_tried_again(tmp_path: Path) -> None:
    made = made_with(tmp_path, ended(RunEnd.CRASHED, "the child was ended by SIGSEGV"))
    done = bridging.bridge_gaps(made.bench, made.lease)
    assert done.bridges[0].verdict is Verdict.ERROR and "SIGSEGV" in done.bridges[0].reason
    made.runner.outcome = observed(0.0017)
    assert bridging.bridge_gaps(made.bench, made.lease).bridges[0].verdict is Verdict.PASS


def test_other_plugins_try_anew(tmp_path: Path) -> None:
    made = made_with(tmp_path, observed(0.05))
    bridging.bridge_gaps(made.bench, made.lease)
    made.runner.outcome = observed(0.0017)
    bench = replace(made.bench, operator_plugins=("mine",))
    assert not bridging.bridge_gaps(bench, made.lease).coverage.gaps
    assert prestaging.coverage(made.bench, made.lease).noun.gaps, "without the plugin the gap is there"


@pytest.mark.parametrize(("platform", "error"), [("h200", DependencyError), ("nonesuch", NotFoundError)])
def test_a_platform_that_is_not_here_is_refused_before_anything_is_recorded(
    tmp_path: Path, platform: str, error: type[Exception]
) -> None:
    with pytest.raises(error, match=platform):
        app.bridge_here(Settings(data_dir=tmp_path / "data"), "dir", platform)
    assert not (tmp_path / "data").exists()
