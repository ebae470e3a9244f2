"""The decision table, over every combination of verdicts."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.domain.entry import Correctness, Lifecycle, Performance
from dayzero.domain.planning import Degrees
from dayzero.domain.verdict import Check, CheckLayer, Culprit, Grade, Measurement, Mode, Verdict, VerificationReport
from dayzero.errors import BadInputError
from dayzero.stages.entries.deciding import derive_entry
from dayzero.stages.entries.required import END_TO_END, METHOD, requirements
from entry_scenes import ALL_PASS, ENDS_NAME, FULLY, KEY, NAMES, check, checks, derive, report


def expected(verdicts: dict[str, Verdict | None]) -> Correctness:
    """The table once more, in other words than the code has."""
    values = list(verdicts.values())
    if Verdict.FAIL in values:
        return Correctness.FAILING
    if values.count(Verdict.PASS) == len(NAMES):
        return Correctness.VERIFIED
    return Correctness.FUNCTIONAL if verdicts[END_TO_END] is Verdict.PASS else Correctness.UNKNOWN


def hold_the_table(verdicts: dict[str, Verdict | None]) -> None:
    entry = derive(checks(verdicts))
    assert entry.correctness is expected(verdicts), verdicts
    assert entry.missing_checks == tuple(
        need.name for need in requirements(KEY) if not any(verdicts.get(name) is Verdict.PASS for name in need.any_of)
    )


def test_every_combination_of_verdicts() -> None:
    for values in product(Verdict, repeat=FULLY):
        hold_the_table({**ALL_PASS, **dict(zip(NAMES, values, strict=False))})


@given(st.fixed_dictionaries({name: st.sampled_from(Verdict) for name in NAMES}))
def test_any_combination_of_verdicts(verdicts: dict[str, Verdict | None]) -> None:
    hold_the_table(verdicts)


@pytest.mark.parametrize(
    ("cache", "name"),
    [("fp8", "cache.fp8_e4m3_tensor"), ("int8", "cache.int8_head"), ("float8_e5m2", "cache.float8_e5m2")],
)
def test_a_plan_with_a_cache_in_8_bits_needs_its_check(cache: str, name: str) -> None:
    key = replace(KEY, dtype=f"bfloat16+{cache}-cache")
    others = (*checks(ALL_PASS), check(CheckLayer.PRECISION, "cache.of_no_plan", Verdict.FAIL, "tp1"))
    entry = derive(others, key)
    assert (entry.correctness, entry.missing_checks) == (Correctness.FUNCTIONAL, (name,)) and name in entry.reason
    shown = {verdict: derive((*others, check(CheckLayer.PRECISION, name, verdict, "tp1")), key) for verdict in Verdict}
    assert shown[Verdict.PASS].correctness is Correctness.VERIFIED
    assert shown[Verdict.FAIL].correctness is Correctness.FAILING
    assert {shown[one].correctness for one in (Verdict.ERROR, Verdict.NOT_RUN)} == {Correctness.FUNCTIONAL}
    assert derive(others).correctness is Correctness.VERIFIED, "of a format that no plan chose nothing is asked"


ANY_CHECKS = st.lists(
    st.builds(
        Check,
        layer=st.sampled_from(CheckLayer),
        check=st.sampled_from([*NAMES, "memory.weights", "image.build", "fine_tune.training", "precision.extra"]),
        rung=st.sampled_from(["tp1", "tp3", "pp2"]),
        verdict=st.sampled_from(Verdict),
        grade=st.sampled_from(Grade),
        reason=st.just("because"),
    ),
    max_size=14,
).map(tuple)


@given(st.sampled_from([ALL_PASS, {}]).map(checks), ANY_CHECKS)
def test_verified_only_when_every_requirement_is_shown_and_nothing_fails(
    base: tuple[Check, ...], more: tuple[Check, ...]
) -> None:
    found = (*base, *more)
    entry = derive(found)
    evident = [one for one in found if one.grade is not Grade.PREDICTED]
    if entry.correctness is Correctness.VERIFIED:
        for need in requirements(KEY):
            about = [one for one in evident if one.layer is need.layer and one.check in need.any_of]
            assert Verdict.PASS in {one.verdict for one in about}
            assert not {Verdict.FAIL, Verdict.ERROR} & {one.verdict for one in about}
        assert entry.missing_checks == ()
        assert entry.grade is not Grade.PREDICTED
    else:
        assert entry.missing_checks or entry.correctness is Correctness.FAILING
    if entry.correctness in (Correctness.VERIFIED, Correctness.FUNCTIONAL):
        assert any(one.check == END_TO_END and one.verdict is Verdict.PASS for one in evident)
    if entry.correctness is Correctness.FAILING:
        assert any(one.verdict is Verdict.FAIL for one in evident)


@given(ANY_CHECKS)
def test_adding_a_check_that_was_not_run_never_improves_an_entry(found: tuple[Check, ...]) -> None:
    order = [Correctness.FAILING, Correctness.UNKNOWN, Correctness.FUNCTIONAL, Correctness.VERIFIED]
    before = derive(found).correctness
    for name, layer in (("layers.three_way", CheckLayer.PRECISION), (END_TO_END, CheckLayer.END_TO_END)):
        after = derive((*found, check(layer, name, Verdict.NOT_RUN))).correctness
        assert order.index(after) <= order.index(before)


def test_from_nothing_comes_unknown() -> None:
    entry = derive_entry(KEY, mode=Mode.INFERENCE, coverage=None, report=None, plan=None)
    assert entry.correctness is Correctness.UNKNOWN
    assert entry.grade is Grade.PREDICTED
    assert entry.performance is Performance.UNMEASURED
    assert ENDS_NAME in entry.missing_checks
    assert ENDS_NAME in entry.reason
    assert not entry.verified


def test_grade_is_the_weakest_evidence_that_counts() -> None:
    found = checks(ALL_PASS)
    declared = tuple(replace(one, grade=Grade.DECLARED) if one.check == "operators.coverage" else one for one in found)
    assert derive(found).grade is Grade.MEASURED
    assert derive(declared).grade is Grade.DECLARED
    assert derive(declared).correctness is Correctness.VERIFIED
    assert derive(checks(ALL_PASS, Grade.PREDICTED)).correctness is Correctness.UNKNOWN


def test_the_evidence_says_what_each_grade_refers_to() -> None:
    found = checks(ALL_PASS)
    declared = tuple(replace(one, grade=Grade.DECLARED) if one.check == "operators.coverage" else one for one in found)
    assert derive(found).evidence == "all measured"
    by_manifest = "operators.coverage declared by the platform's operator manifest"
    assert derive(declared).evidence == f"{by_manifest}; the rest measured"
    failing = derive(checks({**ALL_PASS, "layers.three_way": Verdict.FAIL}))
    assert failing.evidence == "layers.three_way measured"
    nothing = derive(())
    assert (nothing.grade, nothing.evidence) == (Grade.PREDICTED, "predicted: nothing that decides was run")
    missing = tuple(replace(one, verdict=Verdict.FAIL) if one.check == "operators.coverage" else one for one in declared)
    assert derive(missing).evidence == by_manifest


def test_a_failing_entry_says_its_conclusion_first() -> None:
    verdicts = {**ALL_PASS, "layers.three_way": Verdict.FAIL, "operators.float64": Verdict.FAIL}
    culprit = Culprit(12, "model.layers.12.mlp", None, 0.02, 0.001)
    found = report(checks(verdicts), culprits=(culprit,))
    entry = derive_entry(KEY, mode=Mode.INFERENCE, coverage=None, report=found, plan=None)
    assert entry.reason == (
        "wrong at layer 12 (model.layers.12.mlp): error 0.02, allowed 0.001; "
        "operators.float64 at tp3 and layers.three_way at tp3 fail"
    )
    alone = derive(checks({**ALL_PASS, "memory.peak": Verdict.FAIL}))
    assert alone.reason == "memory.peak at tp3 fails: memory.peak says so"


def test_a_failing_entry_names_the_check_and_where_the_fault_starts() -> None:
    found = report(
        checks({**ALL_PASS, "layers.three_way": Verdict.FAIL}),
        culprits=(Culprit(12, "model.layers.12.mlp", "aten.mm.default", 0.02, 0.001),),
    )
    entry = derive_entry(KEY, mode=Mode.INFERENCE, coverage=None, report=found, plan=None)
    assert entry.correctness is Correctness.FAILING
    for part in ("layers.three_way", "layer 12", "model.layers.12.mlp", "aten.mm.default", "0.02", "0.001"):
        assert part in entry.reason


def test_the_parallel_check_is_required_at_the_rung_of_the_plan() -> None:
    without = {name: verdict for name, verdict in ALL_PASS.items() if name != "parallel.logits"}
    alone = {name: verdict for name, verdict in without.items() if name != "parallel.share"}
    other = check(CheckLayer.MEMORY_PARALLELISM, "parallel.logits", Verdict.PASS, rung="pp2")
    assert derive((*checks(without), other)).missing_checks == ("parallel.logits@tp3",)
    for plan in (Degrees(), Degrees(dp=2)):
        assert derive(checks(alone), replace(KEY, plan=plan)).correctness is Correctness.VERIFIED
    for plan in (Degrees(pp=2), Degrees(dp=2, ep=2)):
        needed = (f"parallel.logits@{plan}", f"parallel.share@{plan}")
        assert derive(checks(alone), replace(KEY, plan=plan)).missing_checks == needed
    errs = check(CheckLayer.MEMORY_PARALLELISM, "parallel.logits", Verdict.ERROR, rung="pp2")
    assert derive((*checks(ALL_PASS), errs)).correctness is Correctness.FUNCTIONAL


def test_weights_may_stand_for_peak_memory_but_an_error_is_not_passed_over() -> None:
    weights = {name: verdict for name, verdict in ALL_PASS.items() if name != "memory.peak"} | {"memory.weights": Verdict.PASS}
    assert derive(checks(weights)).correctness is Correctness.VERIFIED
    assert derive(checks({**weights, "memory.peak": Verdict.NOT_RUN})).correctness is Correctness.VERIFIED
    assert derive(checks({**weights, "memory.peak": Verdict.ERROR})).correctness is Correctness.FUNCTIONAL


@pytest.mark.parametrize("name", ["image.build", "serving.completion", "fine_tune.training"])
def test_image_serving_and_fine_tune_are_columns_of_their_own(name: str) -> None:
    extra = check(CheckLayer.END_TO_END, name, Verdict.FAIL)
    entry = derive((*checks(ALL_PASS), extra))
    assert entry.correctness is Correctness.VERIFIED
    assert entry.columns[name.split(".")[0]] == "fail"
    assert derive(checks(ALL_PASS)).columns == dict.fromkeys(("image", "serving", "fine_tune", "cache"), "not_run")


def test_fine_tune_mode_requires_its_training_check_beside_the_others() -> None:
    key = replace(KEY, mode=Mode.FINE_TUNE)
    trained = check(CheckLayer.END_TO_END, "fine_tune.training", Verdict.PASS)
    for found, correctness in (
        (checks(ALL_PASS), Correctness.FUNCTIONAL),
        ((*checks(ALL_PASS), trained), Correctness.VERIFIED),
        ((*checks(ALL_PASS), replace(trained, verdict=Verdict.FAIL)), Correctness.FAILING),
    ):
        tuned = VerificationReport("fine-tune-4", "cpu", Mode.FINE_TUNE, found)
        assert derive_entry(key, mode=Mode.FINE_TUNE, coverage=None, report=tuned, plan=None).correctness is correctness


def test_blocked_is_neither_pass_nor_fail() -> None:
    entry = derive_entry(
        KEY, mode=Mode.INFERENCE, coverage=None, report=None, plan=None, blocked_reason="no reference implementation"
    )
    assert entry.lifecycle is Lifecycle.BLOCKED
    assert entry.correctness is Correctness.UNKNOWN
    assert entry.reason == "blocked: no reference implementation"


def test_performance_is_measured_only_by_performance_figures() -> None:
    memory = report(checks(ALL_PASS), measurements=(Measurement("peak_memory_bytes", 1.0, "bytes"),))
    speed = report(checks(ALL_PASS), measurements=(Measurement("ttft_s", 1.0, "s"),))
    for found, performance in ((memory, Performance.UNMEASURED), (speed, Performance.MEASURED)):
        entry = derive_entry(KEY, mode=Mode.INFERENCE, coverage=None, report=found, plan=None)
        assert entry.performance is performance


def test_results_of_another_platform_or_mode_are_refused() -> None:
    other = VerificationReport(METHOD, "h100", Mode.INFERENCE, checks(ALL_PASS))
    with pytest.raises(BadInputError, match="several platforms: cpu, h100"):
        derive_entry(KEY, mode=Mode.INFERENCE, coverage=None, report=other, plan=None)
    with pytest.raises(BadInputError, match="several modes"):
        derive_entry(KEY, mode=Mode.FINE_TUNE, coverage=None, report=None, plan=None)


def test_an_encoder_shows_embeddings_in_the_place_of_texts() -> None:
    of_texts = ("decoding.three_way", "model.perplexity", "model.logits", END_TO_END)
    common = {name: verdict for name, verdict in ALL_PASS.items() if name not in of_texts}
    shown = {**common, "model.embeddings": Verdict.PASS, "end_to_end.embedding": Verdict.PASS}
    not_run = dict.fromkeys(of_texts, Verdict.NOT_RUN)
    assert derive(checks({**shown, **not_run})).correctness is Correctness.VERIFIED
    assert derive(checks({**shown, "model.embeddings": Verdict.FAIL})).correctness is Correctness.FAILING
    assert derive(checks({**shown, "model.embeddings": Verdict.ERROR})).correctness is Correctness.FUNCTIONAL
    assert derive(checks({**shown, "end_to_end.embedding": Verdict.NOT_RUN})).correctness is Correctness.UNKNOWN
