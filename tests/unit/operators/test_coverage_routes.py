"""Coverage beyond names: composites and their parts, shapes on a rank, engines, and the order of the gaps."""

from dataclasses import replace

import pytest

from dayzero.domain.operators import (
    Bridging,
    CoverageKind,
    Decomposition,
    EngineManifest,
    GraphUse,
    KernelUse,
    OperatorInventory,
    OperatorManifest,
    OperatorSupport,
    Phase,
    SupportKind,
)
from dayzero.domain.verdict import Grade
from dayzero.stages.coverage.covering import cover, with_exclusions
from dayzero.stages.coverage.figures import rank_figures, shapes_of, unmet, use_figures
from dayzero.stages.coverage.ranking import COSTS, with_models

SDPA = "aten.scaled_dot_product_attention.default"
SYMBOLS = {"T": 262, "S": 263, "D": 4096, "V": 1000}


def use(name: str, shape: str = "(T,4)", *, part_of: str | None = None, flops: int | None = None, moved: int = 8) -> GraphUse:
    return GraphUse(name, ("bfloat16",), shape, Phase.PREFILL, 1, ("model.layers.*",), flops, moved, part_of)


def inventory(*uses: GraphUse, kernels: tuple[KernelUse, ...] = (), made: tuple[Decomposition, ...] = ()) -> OperatorInventory:
    return OperatorInventory("XForCausalLM", kernels, uses, "library 1", symbols=SYMBOLS, decompositions=made)


def manifest(*names: str | OperatorSupport, engines: tuple[EngineManifest, ...] = ()) -> OperatorManifest:
    supports = tuple(
        name if isinstance(name, OperatorSupport) else OperatorSupport(name, SupportKind.NATIVE, Grade.DECLARED)
        for name in names
    )
    return OperatorManifest("npu", "torch", "1", supports, engines=engines)


ATTENTION = inventory(
    use(SDPA, "(1,8,T,64),(1,2,T,64),(1,2,T,64)", flops=100),
    use("aten.bmm.default", part_of=SDPA, flops=100),
    use("aten._softmax.default", part_of=SDPA),
    use("aten.mm.default", flops=100),
)


def test_a_fused_kernel_makes_its_parts_needless() -> None:
    report = cover(ATTENTION, manifest(SDPA, "aten.mm.default"))
    assert report.gaps == () and {row.operator for row in report.operators} == {SDPA, "aten.mm.default"}
    assert report.graph_coverage == 1.0


def test_without_it_the_parts_are_judged_and_they_are_the_gaps() -> None:
    report = cover(ATTENTION, manifest("aten.bmm.default", "aten.mm.default"))
    (gap,) = report.gaps
    assert gap.operator == "aten._softmax.default" and f"a kernel for {SDPA} would do without it" in gap.why
    kinds = {row.operator: row.kind for row in report.operators}
    assert kinds[SDPA] is CoverageKind.MISSING and kinds["aten.bmm.default"] is CoverageKind.NATIVE
    assert report.graph_coverage == 0.5
    whole = cover(ATTENTION, manifest("aten.bmm.default", "aten.mm.default", "aten._softmax.default"))
    assert whole.gaps == () and {row.kind for row in whole.operators if row.operator == SDPA} == {CoverageKind.DECOMPOSED}


def test_parts_count_no_work_twice() -> None:
    report = cover(ATTENTION, manifest("aten.bmm.default", "aten._softmax.default"))
    (gap,) = report.gaps
    assert gap.operator == "aten.mm.default" and gap.flops_share == 0.5


def test_composites_inside_composites_are_opened_as_far_as_needed() -> None:
    needed = inventory(
        use("hub.Layer"), use("hub.Inner", part_of="hub.Layer"), use("aten.a.default", part_of="hub.Inner"),
        use("aten.b.default", part_of="hub.Layer"),
    )  # fmt: skip
    assert cover(needed, manifest("hub.Layer")).gaps == ()
    assert cover(needed, manifest("hub.Inner", "aten.b.default")).gaps == ()
    assert [gap.operator for gap in cover(needed, manifest("aten.b.default")).gaps] == ["aten.a.default"]


def test_what_torch_made_of_the_model_s_own_arguments_is_followed() -> None:
    made = (Decomposition("aten.silu.default", ("aten.mul.Tensor", "aten.sigmoid.default")),)
    needed = inventory(use("aten.silu.default"), made=made)
    report = cover(needed, manifest("aten.mul.Tensor", "aten.sigmoid.default"))
    assert report.gaps == () and report.operators[0].kind is CoverageKind.DECOMPOSED
    assert cover(needed, manifest("aten.mul.Tensor")).gaps[0].bridging is Bridging.DECOMPOSITION


def test_a_constraint_is_judged_on_the_shape_of_the_use() -> None:
    limited = OperatorSupport(SDPA, SupportKind.NATIVE, Grade.DECLARED, constraints=("head_dim in 128, 256", "causal only"))
    report = cover(ATTENTION, manifest(limited, "aten.mm.default"))
    row = next(row for row in report.operators if row.operator == SDPA)
    assert row.kind is CoverageKind.MISSING and "head_dim in 128, 256, and head_dim is 64 here" in row.why
    fitting = replace(limited, constraints=("head_dim <= 64", "heads % 4"))
    assert cover(ATTENTION, manifest(fitting, "aten.mm.default")).gaps == ()


def test_kernels_are_judged_by_their_figures_on_a_rank() -> None:
    kernels = (KernelUse("attention.gqa", 4, {"heads": 64, "kv_heads": 8, "head_dim": 128}),)
    limited = OperatorSupport("attention.gqa", SupportKind.NATIVE, Grade.DECLARED, constraints=("heads >= 16",))
    needed = inventory(kernels=kernels)
    assert cover(needed, manifest(limited), tp=4).gaps == ()
    report = cover(needed, manifest(limited), tp=8)
    assert report.tp == 8 and "heads >= 16, and heads is 8 here" in report.gaps[0].why
    assert rank_figures(kernels[0], 16) == {"heads": 4, "kv_heads": 1, "head_dim": 128}


@pytest.mark.parametrize(
    ("constraint", "broken"),
    [
        ("head_dim <= 64", True), ("head_dim < 128", True), ("head_dim >= 128", False), ("head_dim > 128", True),
        ("head_dim == 128", False), ("head_dim != 128", True), ("head_dim in 64,128", False), ("head_dim in 64", True),
        ("head_dim % 16", False), ("head_dim % 48", True), ("head_dim <= many", False), ("phase == decode", True),
        ("no such form", False), ("groups <= 1", False),
    ],
)  # fmt: skip
def test_constraints_are_read_or_stand_as_words(constraint: str, broken: bool) -> None:
    found = unmet((constraint,), {"head_dim": 128, "phase": "prefill"})
    assert (found is not None) is broken and (found is None or found.constraint == constraint)


def test_shapes_are_read_back_with_the_symbols() -> None:
    assert shapes_of("(1,8T,D),(V/8,2S),()", SYMBOLS) == [(1, 2096, 4096), (125, 526), ()]
    assert shapes_of("(1,Q)", SYMBOLS) == [] and shapes_of("nothing", SYMBOLS) == []
    product = use_figures(use("aten._grouped_mm.default", "(8T,D),(16,D,512),(16)"), SYMBOLS)
    assert product["groups"] == 16 and product["in_features"] == 4096 and product["out_features"] == 512
    added = use_figures(use("aten.addmm.default", "(512),(T,D),(D,512)"), SYMBOLS)
    assert (added["in_features"], added["out_features"], added["rank"]) == (4096, 512, 1)


def test_gaps_are_ranked_by_cost_share_and_models() -> None:
    needed = inventory(
        use("aten.topk.default", flops=60), use("aten.mul.Tensor", flops=20), use("aten.sort.default", flops=20),
    )  # fmt: skip
    report = cover(needed, manifest())
    assert [(gap.operator, gap.bridging) for gap in report.gaps] == [
        ("aten.mul.Tensor", Bridging.COMPILE), ("aten.topk.default", Bridging.KERNEL), ("aten.sort.default", Bridging.KERNEL),
    ]  # fmt: skip
    known = with_models(report, {"aten.sort.default": 9})
    first = known.gaps[0]
    assert (first.operator, first.models) == ("aten.sort.default", 10)
    assert first.score == pytest.approx(first.share * 10 / COSTS[Bridging.KERNEL])
    assert all(gap.cost == COSTS[gap.bridging] for gap in known.gaps)


def test_an_operator_that_computes_nothing_still_counts() -> None:
    report = cover(inventory(use("aten.view.default", moved=0), use("aten.mm.default", flops=5)), manifest("aten.mm.default"))
    assert report.gaps[0].score > 0


ENGINE = EngineManifest("vllm", "0.32", ("XForCausalLM",), ("attention.gqa",), ("fp8",))
MIXED = (KernelUse("attention.mha", 2, {}), KernelUse("norm.rms", 2, {}))


@pytest.mark.parametrize(
    ("change", "covered", "word"),
    [
        ({}, True, "is registered"),
        ({"architectures": ("Other",)}, False, "not among its 1 registered"),
        ({"architectures": ()}, None, "lists no architectures"),
        ({"attention_kinds": ("attention.mla",)}, False, "names no attention.mha"),
        ({"attention_kinds": ()}, None, "lists no attention kinds"),
        ({"quantization_methods": ("awq",)}, False, "fp8 is not among"),
        ({"quantization_methods": ()}, None, "lists no quantization"),
    ],
)
def test_an_engine_says_yes_no_or_nothing(change: dict[str, tuple[str, ...]], covered: bool | None, word: str) -> None:
    needed = replace(inventory(kernels=MIXED), quantization="fp8")
    (route,) = cover(needed, manifest(engines=(replace(ENGINE, **change),))).engines  # type: ignore[arg-type]
    assert route.covered is covered and word in " ".join(route.reasons) and route.grade is Grade.DECLARED


def test_an_excluded_fused_kernel_falls_back_to_its_parts() -> None:
    offered = with_exclusions(manifest(SDPA, "aten.bmm.default", "aten._softmax.default", "aten.mm.default"), {SDPA: "hangs"})
    report = cover(ATTENTION, offered)
    row = next(row for row in report.operators if row.operator == SDPA)
    assert row.kind is CoverageKind.DECOMPOSED and "hangs" in row.why and report.gaps == ()
