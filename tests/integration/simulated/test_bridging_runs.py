"""Three masked operators of a mixture on the simulated device: two are bridged, one is not, and runs show it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dayzero.adapters.profiles.load import load_profiles
from dayzero.adapters.runners.isolated import SubprocessRunner
from dayzero.codec import load
from dayzero.demo_models.make import make
from dayzero.domain.bridges import Bridge, BridgesObserved, CallShape, GapTask, Recipe
from dayzero.domain.platforms import Device
from dayzero.domain.runs import Observation, RunEnd, RunLimits, RunOutcome, RunRequest
from dayzero.domain.verdict import Verdict
from dayzero.stages.coverage.bridging import judge_bridges
from dayzero.stages.judging import checks as judging

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(900)]

LIMITS = RunLimits(timeout_s=800.0)
CALLS = {
    "aten._grouped_mm.default": CallShape(("bfloat16", "int32"), "(4T,128),(16,128,64),(16)"),
    "aten.scaled_dot_product_attention.default": CallShape(("bfloat16",), "(1,8,T,48),(1,8,T,48),(1,8,T,32)"),
    "aten.topk.default": CallShape(("float32",), "(T,16)"),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make("deepseek-tiny", tmp_path_factory.mktemp("models") / "deepseek-tiny")


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SubprocessRunner]:
    made = SubprocessRunner(tmp_path_factory.mktemp("runs"), platform_slug="sim-npu")
    try:
        yield made
    finally:
        made.close()


def device() -> Device:
    shipped = load_profiles(None)["sim-npu"].device
    assert shipped is not None
    return shipped


def bridged(runner: SubprocessRunner, operator: str, *plugins: str) -> Bridge:
    request = RunRequest(
        Observation.BRIDGE, "sim-npu", custom_operators=plugins, device=device(), gap=GapTask(operator, (CALLS[operator],))
    )
    outcome = runner.run(request, LIMITS)
    assert outcome.end is RunEnd.COMPLETED, outcome.reason
    return judge_bridges(load(BridgesObserved, outcome.document), "sim-npu", ())


def layers(runner: SubprocessRunner, model: Path, recipes: tuple[Recipe, ...], plugins: tuple[str, ...] = ()) -> RunOutcome:
    request = RunRequest(
        Observation.LAYERS, "sim-npu", str(model), custom_operators=plugins, options={"tokens": 24, "compile": False},
        device=device(), bridges=recipes,
    )  # fmt: skip
    return runner.run(request, LIMITS)


@pytest.fixture(scope="module")
def bridges(runner: SubprocessRunner) -> dict[str, Bridge]:
    return {operator: bridged(runner, operator) for operator in CALLS}


def test_two_are_bridged_and_the_third_stays_with_its_reason(bridges: dict[str, Bridge]) -> None:
    for operator in ("aten._grouped_mm.default", "aten.scaled_dot_product_attention.default"):
        bridge = bridges[operator]
        assert bridge.verdict is Verdict.PASS, bridge.reason
        assert bridge.worst_error is not None and bridge.tolerance is not None and bridge.worst_error < bridge.tolerance
        assert bridge.cases >= 4 and bridge.n > 1000
        assert bridge.bridge_s is not None and bridge.composite_s is not None
    third = bridges["aten.topk.default"]
    assert third.verdict is Verdict.NOT_RUN and third.recipe is None
    assert "torch has no decomposition of it" in third.reason and "no code for simnpu" in third.reason


def test_a_wrong_bridge_is_refused_with_its_numbers(runner: SubprocessRunner) -> None:
    bridge = bridged(runner, "aten._grouped_mm.default", "planted-bridge:scale=1.02")
    assert "plugin (planted-bridge:scale=1.02): 4 of 4 inputs fail" in bridge.tried[0]
    assert "relative error 0.02" in bridge.tried[0] and "tolerance 0.0078" in bridge.tried[0]
    assert bridge.recipe is not None and bridge.recipe.kind.value == "decomposition"


def test_a_run_ends_only_where_no_masked_kernel_is_needed(
    runner: SubprocessRunner, model: Path, bridges: dict[str, Bridge]
) -> None:
    bare = layers(runner, model, ())
    assert bare.end is RunEnd.CRASHED and "'aten::scaled_dot_product_attention' with bfloat16" in bare.reason
    two = tuple(bridge.recipe for bridge in bridges.values() if bridge.recipe is not None)
    assert len(two) == 2
    stopped = layers(runner, model, two)
    assert stopped.end is RunEnd.CRASHED and "'aten::topk' with float32 on 'simnpu'" in stopped.reason
    third = bridged(runner, "aten.topk.default", "topk-by-sort")
    assert third.verdict is Verdict.PASS and third.recipe is not None
    done = layers(runner, model, (*two, third.recipe), ("topk-by-sort",))
    assert done.end is RunEnd.COMPLETED, done.reason
    check = judging.judge(RunRequest(Observation.LAYERS, "sim-npu"), done, load).checks[0]
    assert check.verdict is Verdict.PASS, check.reason
    assert "on simnpu" in str(check.numbers["target_path"])


def test_compiled_code_is_a_candidate_where_the_compiler_knows_the_device(runner: SubprocessRunner) -> None:
    task = GapTask("aten.silu.default", (CallShape(("bfloat16",), "(1,T,128)"),))
    outcome = runner.run(RunRequest(Observation.BRIDGE, "cpu", gap=task), LIMITS)
    assert outcome.end is RunEnd.COMPLETED, outcome.reason
    observed = load(BridgesObserved, outcome.document)
    parts, compiled = observed.candidates
    assert "torch.sigmoid" in parts.source
    assert "cpp" in compiled.source and not compiled.why_not
    assert judge_bridges(BridgesObserved(task.operator, (compiled,)), "cpu", ()).verdict is Verdict.PASS


def test_compiled_code_that_calls_the_operator_itself_is_refused(runner: SubprocessRunner) -> None:
    task = GapTask("aten.topk.default", (CALLS["aten.topk.default"],))
    outcome = runner.run(RunRequest(Observation.BRIDGE, "cpu", gap=task), LIMITS)
    assert outcome.end is RunEnd.COMPLETED, outcome.reason
    bridge = judge_bridges(load(BridgesObserved, outcome.document), "cpu", ())
    assert bridge.verdict is Verdict.FAIL and "it would call the operator itself" in bridge.reason
