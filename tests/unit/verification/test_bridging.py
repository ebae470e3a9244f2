"""Bridges are judged by numbers: what passes, what is refused with its figures, and what coverage makes of either."""

from dataclasses import replace

from dayzero.domain.bridges import Bridge, BridgeCase, BridgeKind, BridgesObserved, Candidate, Recipe
from dayzero.domain.operators import (
    CoverageKind,
    Decomposition,
    Gap,
    GraphUse,
    OperatorInventory,
    OperatorManifest,
    OperatorSupport,
    Phase,
    SupportKind,
)
from dayzero.domain.verdict import Grade, Verdict
from dayzero.stages.coverage.bridging import bridgeable, judge_bridges, task_for
from dayzero.stages.coverage.covering import cover

OPERATOR = "aten._grouped_mm.default"
GOOD = BridgeCase("normal", ("bfloat16", "int32"), "(96,128)", 6144, 0.0017, 0.0016, 0.2, 1.0)
PARTS = Recipe(OPERATOR, BridgeKind.DECOMPOSITION, "torch's composite")
COMPILED = Candidate(Recipe(OPERATOR, BridgeKind.COMPILED, "torch.compile"), "torch's compiler generates no code for simnpu")


def judged(*candidates: Candidate) -> Bridge:
    return judge_bridges(BridgesObserved(OPERATOR, candidates), "sim-npu", ("e" * 64,))


def test_the_first_candidate_that_is_as_close_as_the_host_is_the_bridge() -> None:
    bridge = judged(Candidate(PARTS, "", "def parts(): …", (GOOD, replace(GOOD, error=0.0019)), 0.06, 0.001), COMPILED)
    assert (bridge.verdict, bridge.recipe, bridge.cases, bridge.n) == (Verdict.PASS, PARTS, 2, 12288)
    assert (bridge.worst_error, bridge.tolerance) == (0.0019, 2 * 2.0**-8)
    assert (bridge.bridge_s, bridge.composite_s, bridge.source) == (0.06, 0.001, "def parts(): …")
    assert bridge.dtypes == ("bfloat16", "int32")


def test_a_wrong_one_is_refused_with_its_numbers_and_the_next_is_taken() -> None:
    wrong = Candidate(Recipe(OPERATOR, BridgeKind.PLUGIN, "planted-bridge"), cases=(GOOD, replace(GOOD, error=0.05)))
    bridge = judged(wrong, Candidate(PARTS, cases=(GOOD,)))
    assert bridge.recipe == PARTS
    assert "planted-bridge" in bridge.tried[0] and "1 of 2 inputs fail" in bridge.tried[0]
    assert "relative error 0.05, tolerance 0.00781" in bridge.tried[0]
    alone = judged(wrong, COMPILED)
    assert alone.verdict is Verdict.FAIL and alone.recipe is None
    assert "relative error 0.05" in alone.reason and "no code for simnpu" in alone.reason


def test_single_elements_integers_and_what_raises_are_refused_too() -> None:
    for case, word in (
        (replace(GOOD, ratio_max=31.0), "31 times the native one, limit 10"),
        (replace(GOOD, exact=False), "an integer result differs"),
        (replace(GOOD, nonfinite=3), "3 elements are NaN or infinite"),
        (replace(GOOD, raised="NotImplementedError: no kernel"), "it raised NotImplementedError"),
    ):
        bridge = judged(Candidate(PARTS, cases=(GOOD, case)))
        assert bridge.verdict is Verdict.FAIL
        assert word in bridge.reason


def test_nothing_to_try_is_not_run_and_never_a_pass() -> None:
    assert judged(COMPILED).verdict is Verdict.NOT_RUN
    assert judged().verdict is Verdict.NOT_RUN
    assert judged(Candidate(PARTS)).verdict is Verdict.FAIL


def use(name: str, dtype: str = "bfloat16", count: int = 1, shapes: str = "(T,8)") -> GraphUse:
    return GraphUse(name, (dtype,), shapes, Phase.PREFILL, count, ("model.layers.*",), 100, 10)


def inventory(*uses: GraphUse) -> OperatorInventory:
    return OperatorInventory(
        "Tiny", (), uses, "transformers", decompositions=(Decomposition("aten.silu.default", ("aten.mul.Tensor",)),)
    )


MUL = OperatorSupport("aten.mul.Tensor", SupportKind.NATIVE, Grade.DECLARED)
DEVICE = OperatorManifest("sim-npu", "simnpu", "1", (MUL,), excluded={"aten.silu.default": "masked"}, takes_apart=False)


def test_a_refused_operator_is_a_gap_where_nothing_takes_it_apart() -> None:
    needed = inventory(use("aten.silu.default"))
    assert [gap.operator for gap in cover(needed, DEVICE).gaps] == ["aten.silu.default"]
    assert not cover(needed, replace(DEVICE, takes_apart=True)).gaps


def test_a_verified_bridge_covers_in_the_dtypes_that_it_was_verified_in() -> None:
    made = Recipe("aten.silu.default", BridgeKind.DECOMPOSITION, "torch's table")
    bridge = Bridge("aten.silu.default", "sim-npu", Verdict.PASS, "8 inputs agree", made, dtypes=("bfloat16",))
    report = cover(inventory(use("aten.silu.default")), DEVICE, custom={bridge.operator: bridge})
    assert [(row.kind, row.grade) for row in report.operators] == [(CoverageKind.DECOMPOSED, Grade.MEASURED)]
    assert "8 inputs agree" in report.operators[0].why and not report.gaps
    own = replace(bridge, recipe=replace(made, kind=BridgeKind.PLUGIN))
    report = cover(inventory(use("aten.silu.default")), DEVICE, custom={bridge.operator: own})
    assert report.operators[0].kind is CoverageKind.CUSTOM
    report = cover(inventory(use("aten.silu.default", "float32")), DEVICE, custom={bridge.operator: bridge})
    assert [gap.operator for gap in report.gaps] == ["aten.silu.default"]


def test_a_task_holds_the_models_own_calls_the_most_frequent_first() -> None:
    gap = Gap("aten.topk.default", "masked", None, 0.0, 1, ())
    needed = inventory(
        use("aten.topk.default", count=2), use("aten.topk.default", count=9, shapes="(1,8)"), use("aten.b.default")
    )
    task = task_for(gap, needed)
    assert [call.shape_class for call in task.calls] == ["(1,8)", "(T,8)"]
    names = ("aten.topk.default", "aten.x.default.backward", "hub.RMSNorm", "attention.mla")
    assert [kept.operator for kept in bridgeable([replace(gap, operator=name) for name in names])] == ["aten.topk.default"]
