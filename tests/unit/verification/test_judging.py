"""Verdicts come from numbers: for each limit, figures on both sides of it."""

from dataclasses import replace

import pytest

from dayzero.codec import dump, load
from dayzero.domain.observations import (
    Divergence,
    GenerationObserved,
    LayerError,
    LayerErrors,
    ModuleError,
    OperatorError,
    OperatorErrors,
    PerplexityObserved,
    TensorError,
)
from dayzero.domain.observed_parallel import ParallelObserved, RankObserved
from dayzero.domain.observed_towers import TowerErrors, TowersObserved
from dayzero.domain.planning import Degrees
from dayzero.domain.runs import Observation, RunEnd, RunLimits, RunOutcome, RunRequest
from dayzero.domain.verdict import Verdict
from dayzero.errors import BadInputError
from dayzero.stages.judging.checks import CHECKS_OF, Judged, judge, not_run

GOOD, NATIVE = TensorError(960, 0.008, 0.1, 0.9999), TensorError(960, 0.01, 0.1, 0.9999)
OFF = TensorError(960, 0.04, 0.4, 0.9998)


def layer(index: int, target: TensorError = GOOD, cumulative: TensorError = GOOD, **changes: object) -> LayerError:
    made = LayerError(index, f"model.layers.{index}", target, NATIVE, GOOD, NATIVE, 0.5, cumulative, NATIVE, False, 96)
    return replace(made, **changes)  # type: ignore[arg-type]


def layers(*rows: LayerError, **changes: object) -> LayerErrors:
    made = LayerErrors("bfloat16", "float32", "compiled", "eager", 96, "tokenizer", rows)
    return replace(made, **changes)  # type: ignore[arg-type]


def row(operator: str = "aten.mm.default", **changes: object) -> OperatorError:
    made = OperatorError(operator, ("bfloat16",), "Tx8", "model.layers.2.mlp", operator, None, 100, 0.01, 0.002, 1.0)
    return replace(made, **changes)  # type: ignore[arg-type]


PERPLEXITY = PerplexityObserved(
    "t", "tok", 285, "bfloat16", "float32", "compiled", 3.0, 3.01, 3.01, 0.0, 0.01, 0.001, 0.001, 0.99, False
)
PARALLEL = ParallelObserved(
    Degrees(tp=2), "float32", "float64", 24, "tok", TensorError(96, 1e-6, 1e-5, 1.0), TensorError(96, 1e-6, 1e-5, 1.0),
    TensorError(96, 1e-6, 1e-5, 1.0), 1.0, (RankObserved(0, 10, 3, 100, 4), RankObserved(1, 10, 3, 100, 4)),
)  # fmt: skip
GENERATION = GenerationObserved(
    "p", "Paris.", "tok", 5, 3, True, 0, "bfloat16", "eager, cached", 1.0, 0.1, 0.02, 20.0, 1000, None, None, None, None, None,
    "Paris.", "eager, whole text", compared_tokens=3,
)  # fmt: skip


def judged(observation: Observation, noun: object, limits: RunLimits | None = None) -> Judged:
    outcome = RunOutcome(RunEnd.COMPLETED, dump(noun), "", "", 1.0, 900)
    return judge(RunRequest(observation, "cpu"), outcome, load, limits)


def test_sound_layers_pass() -> None:
    (check,) = judged(Observation.LAYERS, layers(layer(0), layer(1))).checks
    assert (check.verdict, check.n, check.tolerance) == (Verdict.PASS, 2, 0.02)


def tower(path: str, *rows: LayerError, unable: str | None = None) -> TowerErrors:
    found = (
        None if unable else layers(*(replace(row, module=f"{path}.layers.{row.index}") for row in rows), token_source="pixels")
    )
    return TowerErrors(path, found, unable)


@pytest.mark.parametrize(
    ("towers", "verdict", "says"),
    [
        ((), Verdict.NOT_RUN, "builds no tower"),
        ((tower("vision", layer(0), layer(1)),), Verdict.PASS, "vision: all 2 layers are as close"),
        ((tower("vision", layer(0)), tower("audio", unable="Other takes waves")), Verdict.NOT_RUN, "audio: Other takes waves"),
        ((tower("vision", layer(0, OFF)), tower("audio", unable="Other takes waves")), Verdict.FAIL, "vision.layers.0"),
        ((tower("vision", layer(0, identical=True)),), Verdict.NOT_RUN, "equal bit for bit"),
    ],
)
def test_towers_are_judged_as_the_worst_of_them(towers: tuple[TowerErrors, ...], verdict: Verdict, says: str) -> None:
    found = judged(Observation.TOWERS, TowersObserved(towers))
    (check,) = found.checks
    assert (check.check, check.verdict) == ("layers.towers", verdict) and says in check.reason
    assert [culprit.module for culprit in found.culprits] == (["vision.layers.0"] if verdict is Verdict.FAIL else [])


def test_a_culprit_is_named_with_its_operator_and_later_layers_only_inherit() -> None:
    inner = ModuleError(
        1, "model.layers.1.mlp.act_fn", "dayzero.planted_silu.default", replace(OFF, rms_relative=0.05), GOOD, 2
    )
    outer = ModuleError(1, "model.layers.1.mlp", None, replace(OFF, rms_relative=0.05), GOOD, 1)
    observed = layers(layer(0), layer(1, OFF, OFF), layer(2, GOOD, OFF), suspects=(outer, inner))
    result = judged(Observation.LAYERS, observed)
    (culprit,) = result.culprits
    assert (culprit.layer_index, culprit.module, culprit.operator) == (1, inner.module, inner.operator)
    assert result.checks[0].verdict is Verdict.FAIL
    assert result.checks[0].numbers["inherited"] == "2"
    assert "only inherit" in result.checks[0].reason


def test_a_fault_that_no_module_shows_alone_is_blamed_on_the_compiled_layer() -> None:
    result = judged(Observation.LAYERS, layers(layer(0, OFF)))
    assert result.culprits[0].operator is None
    assert "only stands out compiled" in result.checks[0].reason


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({"identical": True}, Verdict.NOT_RUN),
        ({"ratio_max": 11.0}, Verdict.FAIL),
        ({"output_target": replace(GOOD, cosine=0.98)}, Verdict.FAIL),
        ({"target": replace(GOOD, nonfinite=1)}, Verdict.FAIL),
        ({"output_native": replace(NATIVE, cosine=0.9)}, Verdict.ERROR),
        ({"tokens_excluded": 60}, Verdict.ERROR),
        ({"target": replace(GOOD, rms_relative=0.02)}, Verdict.PASS),
        ({"target": replace(GOOD, rms_relative=0.0201)}, Verdict.FAIL),
    ],
)
def test_each_limit_of_a_layer_decides(changed: dict[str, object], verdict: Verdict) -> None:
    assert judged(Observation.LAYERS, layers(layer(0, **changed))).checks[0].verdict is verdict  # type: ignore[arg-type]


def test_no_layers_is_not_run() -> None:
    assert judged(Observation.LAYERS, layers()).checks[0].verdict is Verdict.NOT_RUN


def operators(*rows: OperatorError, custom: tuple[str, ...] = ()) -> OperatorErrors:
    return OperatorErrors("bfloat16", "eager", 13, rows, custom)


def test_operators_pass_fail_and_are_not_run() -> None:
    assert judged(Observation.OPERATORS, operators(row())).checks[0].verdict is Verdict.PASS
    result = judged(Observation.OPERATORS, operators(row(), row("mine.silu.default", share_within=0.02)))
    assert result.checks[0].verdict is Verdict.FAIL
    assert (result.culprits[0].layer_index, result.culprits[0].operator) == (2, "mine.silu.default")
    unknown = row(reference=None, why="draws random numbers", share_within=None)
    assert judged(Observation.OPERATORS, operators(unknown)).checks[0].verdict is Verdict.NOT_RUN
    assert judged(Observation.OPERATORS, operators(row(exact=False))).checks[0].verdict is Verdict.FAIL


def test_a_plugin_operator_without_reference_is_an_error_not_a_pass() -> None:
    mine = row("mine.op.default", reference=None, why="names no reference", share_within=None)
    assert judged(Observation.OPERATORS, operators(row(), mine, custom=("mine",))).checks[0].verdict is Verdict.ERROR


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({}, Verdict.PASS),
        ({"identical": True}, Verdict.NOT_RUN),
        ({"kl_target": 0.0041}, Verdict.FAIL),
        ({"kl_native": 0.003, "kl_target": 0.0059}, Verdict.PASS),
        ({"difference_mean": 0.1}, Verdict.FAIL),
        ({"difference_mean": 0.1, "difference_standard_error": 0.06}, Verdict.PASS),
        ({"nll_target": None}, Verdict.FAIL),
        ({"nll_reference": None}, Verdict.ERROR),
        ({"tokens": 3}, Verdict.ERROR),
    ],
)
def test_perplexity(changed: dict[str, object], verdict: Verdict) -> None:
    assert judged(Observation.PERPLEXITY, replace(PERPLEXITY, **changed)).checks[0].verdict is verdict  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({}, Verdict.PASS),
        ({"target": TensorError(96, 1.3, 4.0, 0.1)}, Verdict.FAIL),
        ({"target": TensorError(96, None, None, None, 96)}, Verdict.FAIL),
        ({"ranks": PARALLEL.ranks[:1]}, Verdict.NOT_RUN),
        ({"ranks": (PARALLEL.ranks[0], replace(PARALLEL.ranks[1], tensors=0))}, Verdict.ERROR),
        ({"native": TensorError(96, None, None, None)}, Verdict.ERROR),
    ],
)
def test_parallel(changed: dict[str, object], verdict: Verdict) -> None:
    assert judged(Observation.PARALLEL, replace(PARALLEL, **changed)).checks[0].verdict is verdict  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "verdicts"),
    [
        ({}, (Verdict.PASS, Verdict.PASS)),
        ({"text": " "}, (Verdict.FAIL, Verdict.PASS)),
        ({"nonfinite_logits": 2}, (Verdict.FAIL, Verdict.PASS)),
        ({"divergences": (Divergence(0, 1, "a", "b", 0.1, 0.1),)}, (Verdict.PASS, Verdict.PASS)),
        ({"divergences": (Divergence(0, 1, "a", "b", 0.3, 0.1),)}, (Verdict.PASS, Verdict.FAIL)),
        ({"divergences": (Divergence(0, 1, "a", "b", None, 0.1),)}, (Verdict.PASS, Verdict.ERROR)),
        ({"compared_tokens": 0}, (Verdict.PASS, Verdict.ERROR)),
        ({"untokenized": "no tokenizer"}, (Verdict.NOT_RUN, Verdict.PASS)),
        ({"target_path": "same", "reference_path": "same"}, (Verdict.PASS, Verdict.NOT_RUN)),
    ],
)
def test_generation(changed: dict[str, object], verdicts: tuple[Verdict, Verdict]) -> None:
    checks = judged(Observation.GENERATION, replace(GENERATION, **changed)).checks  # type: ignore[arg-type]
    assert (checks[0].verdict, checks[1].verdict) == verdicts


def test_peak_memory_is_judged_by_a_limit_and_by_nothing_else() -> None:
    peak = {limit: judged(Observation.GENERATION, GENERATION, RunLimits(1.0, limit)).checks[2] for limit in (None, 999, 1000)}
    assert [peak[limit].verdict for limit in (None, 999, 1000)] == [Verdict.NOT_RUN, Verdict.FAIL, Verdict.PASS]


@pytest.mark.parametrize("observation", list(CHECKS_OF))
@pytest.mark.parametrize("end", [end for end in RunEnd if end is not RunEnd.COMPLETED])
def test_an_unfinished_run_gives_every_check_and_never_a_pass(observation: Observation, end: RunEnd) -> None:
    result = judge(RunRequest(observation, "cpu"), RunOutcome(end, b"", "why", "", 1.0, 7), load, RunLimits(1.0, 5))
    assert {check.check for check in result.checks} == {name.value for _layer, name in CHECKS_OF[observation]}
    refused_tasks = (end, observation) == (RunEnd.REFUSED, Observation.TASKS)
    assert {check.verdict for check in result.checks} <= ({Verdict.NOT_RUN} if refused_tasks else {Verdict.ERROR, Verdict.FAIL})
    failed = [check.check for check in result.checks if check.verdict is Verdict.FAIL]
    weighed = end is RunEnd.OUT_OF_MEMORY and observation in (Observation.GENERATION, Observation.ENCODING)
    assert failed == (["memory.peak"] if weighed else [])
    assert all("why" in check.reason for check in result.checks)


def test_a_document_of_another_shape_is_an_error() -> None:
    outcome = RunOutcome(RunEnd.COMPLETED, b"{}", "", "", 1.0, None)
    assert judge(RunRequest(Observation.LAYERS, "cpu"), outcome, load).checks[0].verdict is Verdict.ERROR


def test_what_nobody_ran_is_not_run_and_what_decides_nothing_is_refused() -> None:
    assert [check.verdict for check in not_run(Observation.PARALLEL, "tp2", "one device")] == [Verdict.NOT_RUN] * 3
    with pytest.raises(BadInputError):
        judge(RunRequest(Observation.STACK, "cpu"), RunOutcome(RunEnd.COMPLETED, b"{}", "", "", 1.0, None), load)
