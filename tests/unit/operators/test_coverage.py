"""Coverage: what is covered, what is a gap, and why."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.domain.operators import (
    CoverageKind,
    Decomposition,
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
from dayzero.stages.coverage.document import ops_document

NAMES = [f"aten.op{letter}.default" for letter in "abcdefgh"]


def use(
    name: str, *, flops: int | None = None, phase: Phase = Phase.PREFILL, dtype: str = "bfloat16", count: int = 1
) -> GraphUse:
    return GraphUse(name, (dtype,), "(T,4)", phase, count, ("model.layers.*.mlp",), flops, 8)


def inventory(*uses: GraphUse, kernels: tuple[KernelUse, ...] = ()) -> OperatorInventory:
    return OperatorInventory("X", kernels, uses, "library 1" if uses else None)


def native(name: str, **more: object) -> OperatorSupport:
    return OperatorSupport(name, SupportKind.NATIVE, Grade.DECLARED, **more)  # type: ignore[arg-type]


def manifest(*supports: OperatorSupport, made: tuple[Decomposition, ...] = ()) -> OperatorManifest:
    return OperatorManifest("cpu", "torch", "1", supports, made)


def kinds(report: object) -> dict[str, CoverageKind]:
    return {row.operator: row.kind for row in report.operators}  # type: ignore[attr-defined]


def test_native_missing_and_their_figures() -> None:
    needed = inventory(use("aten.mm.default", flops=75), use("aten.bmm.default", flops=25, count=3))
    report = cover(needed, manifest(native("aten.mm.default")))
    assert kinds(report) == {"aten.mm.default": CoverageKind.NATIVE, "aten.bmm.default": CoverageKind.MISSING}
    (gap,) = report.gaps
    assert (gap.operator, gap.flops_share, gap.calls, gap.modules) == ("aten.bmm.default", 0.25, 3, ("model.layers.*.mlp",))
    assert "not in the manifest of torch 1" in gap.why and "dayzero.operators" in (gap.bridge or "")
    assert report.graph_coverage == 0.5 and report.grade is Grade.DECLARED


def test_gaps_come_ranked_by_flops_then_calls() -> None:
    needed = inventory(use("aten.a.default", count=9), use("aten.b.default", flops=10), use("aten.c.default", flops=90))
    assert [gap.operator for gap in cover(needed, manifest()).gaps] == ["aten.c.default", "aten.b.default", "aten.a.default"]


def test_an_operator_missing_in_two_dtypes_is_one_gap() -> None:
    needed = inventory(use("aten.a.default", flops=10), use("aten.a.default", flops=30, dtype="float32"))
    (gap,) = cover(needed, manifest()).gaps
    assert (gap.flops_share, gap.calls) == (1.0, 2)


def test_decomposition_is_followed_to_the_ground() -> None:
    made = (Decomposition("aten.a.default", ("aten.b.default",)), Decomposition("aten.b.default", ("aten.c.default",)))
    report = cover(inventory(use("aten.a.default")), manifest(native("aten.c.default"), made=made))
    assert report.gaps == () and report.operators[0].kind is CoverageKind.DECOMPOSED
    assert "aten.b.default" in report.operators[0].why
    (gap,) = cover(inventory(use("aten.a.default")), manifest(made=made)).gaps
    assert "aten.b.default is missing" in gap.why and gap.bridge == "decomposition into aten.b.default, once those are covered"


def test_decompositions_in_a_circle_cover_nothing() -> None:
    made = (Decomposition("aten.a.default", ("aten.b.default",)), Decomposition("aten.b.default", ("aten.a.default",)))
    assert len(cover(inventory(use("aten.a.default")), manifest(made=made)).gaps) == 1


def test_composites_are_covered_as_their_parts_are() -> None:
    composite = OperatorSupport("aten.sdpa.default", SupportKind.COMPOSITE, Grade.DECLARED)
    made = (Decomposition("aten.sdpa.default", ("aten.bmm.default",)),)
    needed = inventory(use("aten.sdpa.default"))
    assert cover(needed, manifest(composite, native("aten.bmm.default"), made=made)).gaps == ()
    assert [gap.operator for gap in cover(needed, manifest(composite, made=made)).gaps] == ["aten.sdpa.default"]
    unnamed = cover(needed, manifest(composite)).operators[0]
    assert unnamed.kind is CoverageKind.DECOMPOSED and "does not name" in unnamed.why


def test_a_composite_made_of_itself_covers_nothing() -> None:
    composite = OperatorSupport("aten.a.default", SupportKind.COMPOSITE, Grade.DECLARED)
    made = (Decomposition("aten.a.default", ("aten.b.default",)), Decomposition("aten.b.default", ("aten.a.default",)))
    assert len(cover(inventory(use("aten.a.default")), manifest(composite, made=made)).gaps) == 1


def test_dtype_and_phase_decide_too() -> None:
    offered = manifest(native("aten.a.default", dtypes=("float32",)), native("aten.b.default", phases=(Phase.DECODE,)))
    report = cover(inventory(use("aten.a.default"), use("aten.b.default"), use("aten.a.default", dtype="float32")), offered)
    whys = {gap.operator: gap.why for gap in report.gaps}
    assert "does not offer it for bfloat16" in whys["aten.a.default"] and "in prefill" in whys["aten.b.default"]
    assert sum(row.kind is CoverageKind.NATIVE for row in report.operators) == 1


def test_exclusions_carry_their_reason_and_custom_operators_fill_them() -> None:
    offered = with_exclusions(manifest(native("aten.a.default")), {"aten.a.default": "wrong above 2 GiB"})
    (gap,) = cover(inventory(use("aten.a.default")), offered).gaps
    assert gap.why == "excluded on cpu: wrong above 2 GiB"
    filled = cover(inventory(use("aten.a.default")), offered, custom={"aten.a.default": "ours 1.0"})
    assert filled.gaps == () and filled.operators[0].kind is CoverageKind.CUSTOM and "ours 1.0" in filled.operators[0].why


def test_a_fallback_is_named_as_one() -> None:
    offered = manifest(OperatorSupport("aten.a.default", SupportKind.FALLBACK, Grade.MEASURED))
    row = cover(inventory(use("aten.a.default")), offered).operators[0]
    assert row.kind is CoverageKind.FALLBACK and row.grade is Grade.MEASURED


def test_unknown_stays_unknown() -> None:
    report = cover(inventory(kernels=(KernelUse("attention.gqa", 4),)), manifest(native("aten.a.default")))
    assert report.graph_coverage is None and report.operators == () and report.grade is Grade.PREDICTED
    assert report.findings[0].code == "coverage.unknown"


def test_kernels_are_judged_where_the_manifest_speaks_of_them() -> None:
    kernels = (KernelUse("attention.mla", 4), KernelUse("moe.routed", 3), KernelUse("norm.rms", 4))
    offered = with_exclusions(manifest(native("attention.gqa"), native("norm.rms")), {"moe.routed": "hangs"})
    report = cover(inventory(kernels=kernels), offered)
    assert {gap.operator for gap in report.gaps} == {"attention.mla", "moe.routed"}
    assert kinds(report)["norm.rms"] is CoverageKind.NATIVE
    assert all(gap.bridge is None for gap in report.gaps)


@given(used=st.lists(st.sampled_from(NAMES), min_size=1, unique=True), removed=st.sampled_from(NAMES))
def test_what_is_removed_and_used_is_a_gap(used: list[str], removed: str) -> None:
    offered = manifest(*(native(name) for name in NAMES if name != removed))
    report = cover(inventory(*(use(name) for name in used)), offered)
    assert [gap.operator for gap in report.gaps] == ([removed] if removed in used else [])


@given(
    rules=st.dictionaries(st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True)),
    offered=st.sets(st.sampled_from(NAMES)),
    used=st.sampled_from(NAMES),
)
def test_coverage_equals_the_least_fixed_point(rules: dict[str, list[str]], offered: set[str], used: str) -> None:
    """An operator is covered exactly when it can be built up from what is offered, whatever the cycles."""
    reachable = set(offered)
    while True:
        more = {name for name, parts in rules.items() if set(parts) <= reachable} - reachable
        if not more:
            break
        reachable |= more
    made = tuple(Decomposition(name, tuple(parts)) for name, parts in rules.items())
    report = cover(inventory(use(used)), manifest(*(native(name) for name in sorted(offered)), made=made))
    assert bool(report.gaps) == (used not in reachable)


def test_the_document_has_its_schema_and_totals() -> None:
    needed = inventory(use("aten.a.default", flops=6, count=2), use("aten.a.default", flops=4, phase=Phase.DECODE))
    document = ops_document("dir:model", needed, cover(needed, manifest()))
    assert document["schema"] == "dayzero.ops/1" and document["model"] == "dir:model"
    assert document["totals"] == {
        "graph_uses": 2, "calls": 3, "flops_prefill": 6, "flops_decode": 4, "flops_train": None,
        "bytes_prefill": 8, "bytes_decode": 8, "bytes_train": None,
    }  # fmt: skip
    assert document["coverage"]["gaps"][0]["operator"] == "aten.a.default"  # type: ignore[index,call-overload]
    silent = ops_document("dir:model", replace(needed, graph=(), traced_with=None), None)
    assert silent["coverage"] is None and silent["totals"]["flops_prefill"] is None  # type: ignore[index,call-overload]


@pytest.mark.parametrize(("name", "word"), [("aten.mul.Tensor", "torch.compile"), ("aten.topk.default", "custom")])
def test_the_bridge_suits_the_operator(name: str, word: str) -> None:
    (gap,) = cover(inventory(use(name)), manifest()).gaps
    assert word in (gap.bridge or "")
