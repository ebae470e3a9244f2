"""Operators over drawn inputs: what each figure decides, what is kept of it, and what the next model need not run."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.codec import dump, load
from dayzero.domain.observations import OperatorError, OperatorErrors
from dayzero.domain.operators import OperatorManifest, OperatorSupport, SupportKind
from dayzero.domain.platforms import PlatformProfile, Stack
from dayzero.domain.runs import RunEnd, RunOutcome
from dayzero.domain.sampling import CallFact, CallSample, CallSamples, SampleFigures
from dayzero.domain.verdict import Grade, Verdict
from dayzero.stages.judging.sampled import distributions_check, fact_of, facts_of
from dayzero.stages.platforms.sampled import as_told, carried, known_calls, samples_key, with_samples
from dayzero.steps import prestaging, sampling, verifying
from fakes_bench import PLATFORM, STACK, FakeRunner, Made, make_bench

CLOSE = SampleFigures(1e-8, 0.5, 0.0, 1.0)
FAR = SampleFigures(1e-3, 9000.0, 0.4, 0.9)
GOOD = CallSample("normal", 64, False, "float32", CLOSE, CLOSE, 0.5)
SAME = CallSample("normal", 64, True, "float32", CLOSE, CLOSE, 0.5)


def call(*samples: CallSample, operator: str = "aten.mm.default", **changes: object) -> CallSamples:
    made = CallSamples(operator, ("float32",), "Tx8", "model.layers.2.mlp", samples)
    return replace(made, **changes)  # type: ignore[arg-type]


def observed(*calls: CallSamples, known: tuple[CallFact, ...] = (), left_out: dict[str, int] | None = None) -> OperatorErrors:
    rows = tuple(
        OperatorError(one.operator, one.dtypes, one.shape_class, "model.layers.2.mlp", one.operator, None, 64, share_within=1.0)
        for one in (*calls, *known)
    )
    return OperatorErrors("float32", "eager", 13, rows, (), 1.0, calls, known, left_out or {})


@pytest.mark.parametrize(
    ("changed", "verdict", "says"),
    [
        ({}, Verdict.PASS, ""),
        ({"target": FAR}, Verdict.FAIL, "relative error 0.001, tolerance 1.91e-06"),
        ({"target": FAR, "native": replace(FAR, rms_relative=6e-4)}, Verdict.PASS, ""),
        ({"target": replace(CLOSE, rms_relative=None)}, Verdict.FAIL, "not finite"),
        ({"ratio_max": 10.5}, Verdict.FAIL, "10.5 times"),
        ({"nonfinite": 2}, Verdict.FAIL, "2 elements are NaN or infinite"),
        ({"otherwise": 2}, Verdict.FAIL, "2 elements leave the range otherwise"),
        ({"exact_n": 4, "mismatched": 1}, Verdict.FAIL, "1 of 4 integers"),
        ({"why": "no kernel for it"}, Verdict.ERROR, "on large magnitude inputs the target raised: no kernel for it"),
        ({"identical": True, "target": FAR}, Verdict.PASS, ""),
        ({"saturated": 3}, Verdict.PASS, ""),
        ({"flushed": 3}, Verdict.PASS, ""),
        ({"flushed": 3, "dtype": "float16"}, Verdict.FAIL, "3 results below the smallest normal number became zero"),
        ({"inputs_flushed": True, "dtype": "float16"}, Verdict.FAIL, "are taken as zero"),
    ],
)
def test_each_figure_of_a_distribution_decides(changed: dict[str, object], verdict: Verdict, says: str) -> None:
    fact = fact_of(call(GOOD, replace(GOOD, distribution="large magnitude", **changed)))  # type: ignore[arg-type]
    assert fact.verdict is verdict and says in (fact.why or "")
    assert verdict is not Verdict.FAIL or fact.distribution == "large magnitude"


def test_rounding_inside_by_design_is_allowed_for() -> None:
    sample = replace(GOOD, target=replace(CLOSE, rms_relative=3e-6))
    assert [fact_of(call(sample, roundings=times)).verdict for times in (0, 1)] == [Verdict.FAIL, Verdict.PASS]


def test_what_equals_the_hosts_kernel_everywhere_is_not_passed() -> None:
    fact = fact_of(call(SAME, replace(SAME, distribution="exact zeros")))
    assert (fact.verdict, fact.identical, fact.samples) == (Verdict.NOT_RUN, 2, 2)
    check, culprits = distributions_check(observed(call(SAME)), "tp1")
    assert check.verdict is Verdict.NOT_RUN and culprits == ()
    assert "1 of 1 calls equal the host's own kernel bit for bit, which says nothing" in check.reason
    assert check.numbers["identical"] == 1 and check.n == 0


def test_subnormal_inputs_taken_as_zero_have_a_name() -> None:
    wrong = replace(GOOD, distribution="denormal", nonfinite=4)
    as_zero = replace(GOOD, distribution="denormal", inputs_flushed=True)
    fact = fact_of(call(GOOD, wrong, as_zero, operator="aten.rsqrt.default"))
    assert (fact.verdict, fact.flushing) == (Verdict.PASS, "inputs")
    assert fact_of(call(GOOD, wrong, replace(as_zero, nonfinite=1))).verdict is Verdict.FAIL
    check, _ = distributions_check(observed(call(GOOD, wrong, as_zero, operator="aten.rsqrt.default")), "tp1")
    assert check.verdict is Verdict.PASS and "taken as zero when they come in by aten.rsqrt.default" in check.reason
    assert check.numbers["flush_subnormals"] == 1


def test_a_fault_is_named_with_its_distribution_and_module() -> None:
    bad = call(GOOD, replace(GOOD, distribution="large magnitude", target=FAR), operator="aten.exp.default")
    check, (culprit,) = distributions_check(observed(call(GOOD), bad, left_out={"too large": 3}), "tp1")
    assert check.verdict is Verdict.FAIL
    assert "aten.exp.default (float32; Tx8) in model.layers.2.mlp on large magnitude inputs: relative error" in check.reason
    assert (culprit.layer_index, culprit.operator) == (2, "aten.exp.default")
    assert {name: check.numbers[name] for name in ("asked", "known", "new", "left_out")} == {
        "asked": 5, "known": 0, "new": 2, "left_out": 3,
    }  # fmt: skip


def test_what_is_known_to_be_wrong_fails_the_next_model_too() -> None:
    known = fact_of(call(replace(GOOD, target=FAR), operator="aten.exp.default"))
    check, culprits = distributions_check(observed(call(GOOD), known=(known,)), "tp1")
    assert check.verdict is Verdict.FAIL and check.reason.endswith("known of this stack")
    assert [culprit.module for culprit in culprits] == ["model.layers.2.mlp"]


def test_errors_and_operators_of_plugins_are_not_kept() -> None:
    calls = (call(GOOD), call(replace(GOOD, why="raised"), operator="aten.sin.default"), call(GOOD, shared=False))
    assert [fact.operator for fact in facts_of(observed(*calls))] == ["aten.mm.default"]
    check, _ = distributions_check(observed(*calls), "tp1")
    assert check.verdict is Verdict.ERROR and "aten.sin.default" in check.reason


NAMES = st.sampled_from(["aten.mm.default", "aten.exp.default", "aten.sin.default"])
FACTS = st.lists(st.tuples(NAMES, st.sampled_from(["Tx8", "1x8"])), max_size=6)
Named = list[tuple[str, str]]
NATIVE = [OperatorSupport(f"aten.{name}.default", SupportKind.NATIVE, Grade.DECLARED) for name in ("exp", "mm")]
TOLD = OperatorManifest("cpu", "torch", "2", tuple(NATIVE))


def facts(named: Named) -> list[CallFact]:
    return [CallFact(name, ("float32",), shapes, Verdict.PASS, None, 5, 0) for name, shapes in named]


@given(FACTS, FACTS)
def test_samples_join_in_any_order_and_can_be_taken_away_again(one: Named, other: list[tuple[str, str]]) -> None:
    first = with_samples(with_samples(TOLD, facts(one), "key"), facts(other), "key")
    second = with_samples(with_samples(TOLD, facts(other), "key"), facts(one), "key")
    assert first == second == carried(TOLD, first)
    assert {fact.key for fact in known_calls(first, "key")} == {(name, ("float32",), shapes) for name, shapes in one + other}
    assert as_told(first) == TOLD
    assert known_calls(first, "another key") == ()
    assert {fact.key for fact in with_samples(first, facts(one), "another key").sampled} == {fact.key for fact in facts(one)}


def test_the_key_knows_platform_and_stack() -> None:
    profile = PlatformProfile("cpu", "CPU", "cpu")
    keys = {
        samples_key(profile, STACK), samples_key(profile, Stack("cpu", {"torch": "2.14"})),
        samples_key(replace(profile, dtypes=("float32",)), STACK),
    }  # fmt: skip
    assert len(keys) == 3
    assert samples_key(replace(profile, title="Processor"), STACK) in keys, "prose changes nothing"


def ran(*calls: CallSamples, known: tuple[CallFact, ...] = ()) -> RunOutcome:
    return RunOutcome(RunEnd.COMPLETED, dump(observed(*calls, known=known)), "", "", 1.0, None)


class OtherRunner(FakeRunner):
    """A worker of the same platform with another stack."""

    def stack(self) -> Stack:
        return Stack(PLATFORM, {"torch": "2.14"})


def manifest_of(made: Made) -> OperatorManifest:
    told = made.ledger.manifest(PLATFORM)
    assert told is not None
    return told[0]


def test_the_next_model_is_asked_only_for_what_is_new(tmp_path: Path) -> None:
    made = make_bench(tmp_path, outcome=ran(call(GOOD)))
    verifying.operators_step(made.bench, made.lease)
    assert made.runner.ran[0].known_calls == ()
    assert [fact.operator for fact in manifest_of(made).sampled] == ["aten.mm.default"]
    assert manifest_of(made).operators[0].grade is Grade.MEASURED
    request = replace(made.runner.ran[0], model_dir="another model")
    assert sampling.with_known_calls(made.bench, made.runner, request).known_calls == manifest_of(made).sampled
    other = OtherRunner(made.runner.outcome)
    assert sampling.with_known_calls(made.bench, other, request).known_calls == (), "another stack runs them again"


def test_samples_do_not_change_what_a_model_is_keyed_by(tmp_path: Path) -> None:
    made = make_bench(tmp_path, outcome=ran(call(GOOD)))
    first = prestaging.coverage(made.bench, made.lease)
    verifying.operators_step(made.bench, made.lease)
    assert manifest_of(made).sampled
    again = prestaging.coverage(made.bench, made.lease)
    assert again.reused and again.noun == first.noun
    report = verifying.operators_step(made.bench, made.lease)
    assert report.reused and len(made.runner.ran) == 1


def test_a_document_that_cannot_be_read_adds_nothing(tmp_path: Path) -> None:
    made = make_bench(tmp_path, outcome=RunOutcome(RunEnd.COMPLETED, b'{"lies": 1}', "", "", 1.0, None))
    report = verifying.operators_step(made.bench, made.lease)
    assert report.verdict is Verdict.ERROR and manifest_of(made).sampled == ()


def test_an_observation_from_before_says_that_nothing_was_drawn() -> None:
    old = load(OperatorErrors, b'{"dtype":"float32","target_path":"eager","prompt_tokens":13,"operators":[]}')
    check, _ = distributions_check(old, "tp1")
    assert (check.verdict, check.reason) == (Verdict.NOT_RUN, "no call was run on drawn inputs")
