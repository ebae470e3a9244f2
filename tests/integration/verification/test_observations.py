"""Real observations of the tiny models in child processes: sound ones pass, planted faults are found and named."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from verification_shards import shard_model

from dayzero.adapters.runners.isolated import SubprocessRunner
from dayzero.codec import load
from dayzero.demo_models.make import make
from dayzero.domain.observations import LayerErrors, MemoryObserved, OperatorErrors
from dayzero.domain.planning import Degrees
from dayzero.domain.platforms import PlatformProfile
from dayzero.domain.runs import Observation, RunRequest
from dayzero.domain.verdict import Verdict
from dayzero.stages.judging.checks import Judged, judge
from dayzero.stages.judging.memory import predicted_memory
from dayzero.stages.judging.sampled import distributions_check, facts_of
from dayzero.stages.precision.planting import planted_layer
from dayzero.stages.structure.reading import read_spec
from observing import LIMITS, completed

pytestmark = pytest.mark.torch


def judged(runner: SubprocessRunner, request: RunRequest) -> Judged:
    outcome = completed(runner, request)
    return judge(request, outcome, load, LIMITS)


def test_the_models_are_the_same_bytes_for_the_same_seed(models: Mapping[str, Path], tmp_path: Path) -> None:
    again = make("llama-tiny", tmp_path / "again")
    other = make("llama-tiny", tmp_path / "other", seed=1)
    weights = [(folder / "model.safetensors").read_bytes() for folder in (models["llama-tiny"], again, other)]
    assert weights[0] == weights[1] != weights[2]


@pytest.mark.parametrize("kind", ["llama-tiny", "deepseek-tiny"])
def test_sound_operators_and_layers_pass(models: Mapping[str, Path], runner: SubprocessRunner, kind: str) -> None:
    for observation in (Observation.OPERATORS, Observation.LAYERS):
        request = RunRequest(observation, "cpu", str(models[kind]), options={"compile": False, "tokens": 32})
        check, *drawn = judged(runner, request).checks
        assert check.verdict is Verdict.PASS, check.reason
        for same in drawn:
            assert same.verdict is Verdict.NOT_RUN and "the host's own kernel computes it" in same.reason


def test_the_next_model_runs_only_what_is_new_on_drawn_inputs(models: Mapping[str, Path], runner: SubprocessRunner) -> None:
    # The host's kernels, held against themselves: the one place where they are, for the sampler must invent no error.
    request = RunRequest(Observation.OPERATORS, "cpu", str(models["llama-tiny"]), options={"sample_natives": 1})
    first = load(OperatorErrors, runner.run(request, LIMITS).document)
    facts = facts_of(first)
    again = load(OperatorErrors, runner.run(replace(request, known_calls=facts), LIMITS).document)
    assert len(facts) == len(first.samples) > 50 and first.known == ()
    assert again.samples == () and {fact.key for fact in again.known} == {fact.key for fact in facts}
    check = distributions_check(again, "tp1")[0]
    assert check.verdict is Verdict.NOT_RUN and "bit for bit, which says nothing" in check.reason
    assert check.numbers["identical"] == len(facts)
    numbers = check.numbers
    assert (numbers["new"], numbers["known"], numbers["asked"]) == (0, len(facts), len(facts) + numbers["left_out"])
    assert [row.operator for row in again.operators] == [row.operator for row in first.operators], "real inputs every time"


@pytest.mark.parametrize("kind", ["llama-tiny", "deepseek-tiny"])
def test_a_planted_operator_is_found_in_its_layer(models: Mapping[str, Path], runner: SubprocessRunner, kind: str) -> None:
    layer = planted_layer(3, {"llama-tiny": 6, "deepseek-tiny": 5}[kind])
    for observation in (Observation.OPERATORS, Observation.LAYERS):
        request = RunRequest(
            observation, "cpu", str(models[kind]), custom_operators=("planted-fault:seed=3",),
            options={"compile": False, "tokens": 32},
        )  # fmt: skip
        result = judged(runner, request)
        assert result.checks[0].verdict is Verdict.FAIL
        assert {culprit.layer_index for culprit in result.culprits} == {layer}
        assert {culprit.operator for culprit in result.culprits} == {"dayzero.planted_silu.default"}


@pytest.mark.parametrize(
    ("kind", "degrees"),
    [("llama-tiny", Degrees(tp=2)), ("llama-tiny", Degrees(pp=2)), ("deepseek-tiny", Degrees(tp=2)),
     ("deepseek-tiny", Degrees(tp=2, ep=2))],
)  # fmt: skip
def test_ranks_agree_with_one_process(
    models: Mapping[str, Path], runner: SubprocessRunner, tmp_path: Path, kind: str, degrees: Degrees
) -> None:
    manifest = shard_model(models[kind], tmp_path / "shards", degrees)
    request = RunRequest(Observation.PARALLEL, "cpu", str(models[kind]), str(tmp_path / "shards"), degrees)
    result = judged(runner, request)
    assert result.checks[0].verdict is Verdict.PASS, result.checks[0].reason
    held = [row.value for row in result.measurements if row.name == "rank_weight_bytes"]
    assert held == [manifest.rank_weight_bytes(rank) for rank in range(degrees.world)]


def test_a_sum_left_out_fails(models: Mapping[str, Path], runner: SubprocessRunner, tmp_path: Path) -> None:
    shard_model(models["llama-tiny"], tmp_path / "shards", Degrees(tp=2))
    request = RunRequest(
        Observation.PARALLEL, "cpu", str(models["llama-tiny"]), str(tmp_path / "shards"), Degrees(tp=2),
        options={"skip_all_reduce": 3},
    )  # fmt: skip
    assert judged(runner, request).checks[0].verdict is Verdict.FAIL


def test_generation_goes_from_text_to_text(models: Mapping[str, Path], runner: SubprocessRunner) -> None:
    result = judged(runner, RunRequest(Observation.GENERATION, "cpu", str(models["llama-tiny"]), options={"new_tokens": 6}))
    assert [check.verdict for check in result.checks] == [Verdict.PASS] * 3
    assert result.sample_text
    assert {"ttft", "tpot", "throughput", "peak_memory"} <= {row.name for row in result.measurements}


@pytest.mark.parametrize("kind", ["llama-tiny", "deepseek-tiny"])
def test_perplexity_of_the_target_is_the_references(models: Mapping[str, Path], runner: SubprocessRunner, kind: str) -> None:
    request = RunRequest(Observation.PERPLEXITY, "cpu", str(models[kind]), options={"compile": False, "tokens": 48})
    checks = judged(runner, request).checks
    assert [check.check for check in checks] == ["model.perplexity", "model.logits"]
    assert all(check.verdict is Verdict.PASS for check in checks), [check.reason for check in checks]
    assert checks[0].n == 3 * 47


@pytest.mark.slow
def test_another_runner_finds_what_one_compiled(models: Mapping[str, Path], tmp_path: Path) -> None:
    request = RunRequest(Observation.LAYERS, "cpu", str(models["llama-tiny"]), options={"compile": True, "tokens": 32})
    built: list[set[Path]] = []
    for work in ("first", "second"):
        runner = SubprocessRunner(tmp_path / work, compile_cache=tmp_path / "cache")
        outcome = runner.run(request, LIMITS)
        runner.close()
        observed = load(LayerErrors, outcome.document)
        if not observed.target_path.startswith("compiled"):
            pytest.skip(f"no compiler here: {observed.target_path}")
        built.append(set((tmp_path / "cache").rglob("*.so")))
        assert not (tmp_path / work / "compiled").exists()
    assert built[0]
    assert built[0] == built[1]


@pytest.mark.parametrize(
    ("kind", "degrees"),
    [("llama-tiny", Degrees()), ("llama-tiny", Degrees(tp=2)), ("llama-tiny", Degrees(pp=2)), ("deepseek-tiny", Degrees(tp=2))],
)
def test_ranks_hold_the_planned_weights_and_the_predicted_state(
    models: Mapping[str, Path], runner: SubprocessRunner, tmp_path: Path, kind: str, degrees: Degrees
) -> None:
    manifest = shard_model(models[kind], tmp_path / "shards", degrees)
    request = RunRequest(
        Observation.MEMORY, "cpu", str(models[kind]), str(tmp_path / "shards"), degrees, options={"prompt_tokens": 64}
    )
    outcome = completed(runner, request)
    observed = load(MemoryObserved, outcome.document)
    spec = read_spec((models[kind] / "config.json").read_bytes(), None)
    weights = tuple(manifest.rank_weight_bytes(rank) for rank in range(degrees.world))
    predicted = predicted_memory(spec, PlatformProfile("cpu", "CPU", "cpu"), observed, weights)
    for rank, items in zip(observed.ranks, predicted, strict=True):
        assert rank.state_bytes == items["state"] + items["state_beyond"]
        # The library computes tables of its rotary embedding, and casts what the checkpoint keeps in float32.
        assert abs(rank.weight_bytes - weights[rank.rank]) < 0.01 * weights[rank.rank]
        assert rank.baseline_bytes > rank.weight_bytes
        assert rank.peak_bytes > 0
