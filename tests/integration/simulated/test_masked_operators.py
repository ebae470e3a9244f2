"""A masked operator ends every check on the device as error, and the check says which operator it is."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dayzero.adapters.profiles.load import load_profiles
from dayzero.adapters.runners.isolated import SubprocessRunner
from dayzero.codec import load
from dayzero.demo_models.make import make
from dayzero.domain.bridges import BridgeKind, Recipe
from dayzero.domain.observations import OperatorErrors
from dayzero.domain.platforms import Device
from dayzero.domain.runs import Observation, RunEnd, RunLimits, RunRequest
from dayzero.domain.verdict import Verdict
from dayzero.stages.judging.checks import Judged, judge

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(900)]

LIMITS = RunLimits(timeout_s=800.0)
ATTENTION = "scaled_dot_product_attention"
BRIDGE = Recipe(
    "aten.scaled_dot_product_attention.default", BridgeKind.DECOMPOSITION, "torch's composite, CompositeImplicitAutograd", 3
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make("llama-tiny", tmp_path_factory.mktemp("models") / "llama-tiny")


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SubprocessRunner]:
    made = SubprocessRunner(tmp_path_factory.mktemp("runs"), platform_slug="sim-npu")
    yield made
    made.close()


def device() -> Device:
    shipped = load_profiles(None)["sim-npu"].device
    assert shipped is not None
    return shipped


def ask(observation: Observation, model: Path, bridges: tuple[Recipe, ...] = ()) -> RunRequest:
    options = {"tokens": 24, "compile": False, "new_tokens": 3}
    if observation is Observation.OPERATORS:
        options.pop("tokens")
    return RunRequest(observation, "sim-npu", str(model), options=options, device=device(), bridges=bridges)


def judged(runner: SubprocessRunner, request: RunRequest) -> tuple[Judged, OperatorErrors | None]:
    outcome = runner.run(request, LIMITS)
    completed = request.observation is Observation.OPERATORS and outcome.end is RunEnd.COMPLETED
    return judge(request, outcome, load, LIMITS), load(OperatorErrors, outcome.document) if completed else None


@pytest.mark.parametrize("observation", [Observation.LAYERS, Observation.PERPLEXITY, Observation.GENERATION])
def test_a_run_that_needs_it_is_error_with_its_name(runner: SubprocessRunner, model: Path, observation: Observation) -> None:
    for check in judged(runner, ask(observation, model))[0].checks:
        assert check.verdict is Verdict.ERROR
        assert ATTENTION in check.reason and "no kernel for it" in check.reason


def test_the_operators_around_it_are_judged_all_the_same(runner: SubprocessRunner, model: Path) -> None:
    result, observed = judged(runner, ask(Observation.OPERATORS, model))
    real, drawn = result.checks
    assert observed is not None
    missing = [row for row in observed.operators if row.missing]
    assert {row.operator for row in missing} == {BRIDGE.operator}
    assert (real.verdict, real.numbers["missing"]) == (Verdict.ERROR, BRIDGE.operator)
    assert f"{BRIDGE.operator} in model.layers.0.self_attn" in real.reason and "no kernel for it (masked" in real.reason
    assert int(real.numbers["compared"] or 0) > 30
    assert drawn.verdict is Verdict.PASS, drawn.reason
    assert int(drawn.numbers["judged"] or 0) >= 2, "the device's own matrix unit takes another path than the host's kernel"
    assert result.culprits == ()


def test_with_its_bridge_everything_passes_on_the_device(runner: SubprocessRunner, model: Path) -> None:
    for observation in (Observation.OPERATORS, Observation.LAYERS, Observation.PERPLEXITY, Observation.GENERATION):
        result, observed = judged(runner, ask(observation, model, (BRIDGE,)))
        assert result.checks[0].verdict is Verdict.PASS, result.checks[0].reason
        for check in result.checks:
            assert check.verdict in (Verdict.PASS, Verdict.NOT_RUN), (check.check, check.reason)
        if observed is not None:
            (bridged,) = [call for call in observed.samples if call.operator == BRIDGE.operator][:1]
            assert not bridged.shared, "what a bridge makes is not known of the platform's library"
