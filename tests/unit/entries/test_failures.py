"""Failures: one signature a root cause, what an entry's failures are, and what is foretold."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.domain.failures import FailureKind, KnownFailure, Symptom
from dayzero.domain.operators import GraphUse, KernelUse, OperatorInventory, Phase
from dayzero.domain.sampling import CallFact
from dayzero.domain.verdict import Check, CheckLayer, Culprit, Grade, Verdict
from dayzero.stages.failures.finding import failures_of
from dayzero.stages.failures.foretelling import foretold, ranked_gaps, sentence
from dayzero.stages.failures.signature import MAX_CHARACTERS, normalised, signature
from store_nouns import entry

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SYMPTOM = Symptom(FailureKind.ERROR, "end_to_end.generation", None, (), "", "npu", "s1", "device lost at 0x7f12 after 31.5 s")
WORDS = st.text(st.sampled_from("ab cdefgh(),:;[]'/._-+<>#\n\t"), max_size=60)


@given(st.text(max_size=MAX_CHARACTERS * 2))
def test_normalising_again_changes_nothing(said: str) -> None:
    once = normalised(said)
    assert normalised(once) == once
    assert len(once) <= MAX_CHARACTERS and "\n" not in once


@given(WORDS, WORDS, st.integers(0, 10**12), st.integers(0, 10**12))
def test_figures_do_not_part_what_is_one_cause(before: str, after: str, one: int, other: int) -> None:
    symptoms = [replace(SYMPTOM, said=f"{before} {figure} {after}") for figure in (one, other)]
    assert len({signature(symptom) for symptom in symptoms}) == 1


@given(st.text(st.characters(categories=["L"]), min_size=3, max_size=20), st.text(st.characters(categories=["L"]), min_size=3))
def test_the_models_name_does_not_part_what_is_one_cause(one: str, other: str) -> None:
    said = "weights of {} do not load"
    assert signature(replace(SYMPTOM, said=said.format(f"org/{one}")), (f"org/{one}",)) == signature(
        replace(SYMPTOM, said=said.format(f"org/{other}")), (f"org/{other}",)
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cannot open /data/a/model.bin", "cannot open /srv/b/c/other.bin"),
        ("hf:org/a@main is gated", "ms:b/c is gated"),
        ("lost device 0xdeadbeef", "lost device 0x1"),
        ("artifact 3f2a9c0d1e4b5a69 is missing", "artifact 0a1b2c3d4e5f60718293 is missing"),
        ("layers.3.mlp: 1.5e-3 > 2e-4", "layers.27.mlp: 0.25 > 1e-4"),
    ],
)
def test_what_differs_from_run_to_run_is_left_out(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


def test_what_is_another_cause_has_another_signature() -> None:
    others = [
        replace(SYMPTOM, said="out of memory"), replace(SYMPTOM, platform="gpu"), replace(SYMPTOM, kind=FailureKind.FAIL),
        replace(SYMPTOM, check="model.perplexity"), replace(SYMPTOM, operator="aten.mm.default"),
    ]  # fmt: skip
    assert len({signature(one) for one in (SYMPTOM, *others)}) == 6
    assert signature(replace(SYMPTOM, stack_fingerprint="s2")) == signature(SYMPTOM)
    sized = replace(SYMPTOM, operator="aten.mm.default", shape_class="s0x72,72x72")
    assert signature(sized) == signature(replace(sized, shape_class="s0x4096,4096x96", said="other words", check="other"))
    assert signature(sized) != signature(replace(sized, shape_class="s0x72"))


def test_an_entrys_failures_are_gaps_culprits_and_checks_that_no_culprit_explains() -> None:
    bad = Check(CheckLayer.PRECISION, "operators.float64", "tp1", Verdict.FAIL, Grade.MEASURED, "1 operators miss float64")
    end = Check(CheckLayer.END_TO_END, "end_to_end.generation", "tp1", Verdict.ERROR, Grade.MEASURED, "it crashed")
    climb = replace(bad, check="parallel.ladder", layer=CheckLayer.MEMORY_PARALLELISM, reason="stopped at aten.softmax.int")
    lacks = replace(bad, verdict=Verdict.ERROR, check="operators.distributions", numbers={"missing": "aten.a, aten.b"})
    foreseen = replace(end, check="memory.plan", verdict=Verdict.FAIL, grade=Grade.PREDICTED)
    fine = replace(end, verdict=Verdict.PASS)
    made = replace(
        entry("c", checks=(bad, climb, end, lacks, foreseen, fine)),
        gaps=("aten.gap",),
        culprits=(Culprit(3, "layers.3", "aten.softmax.int", 0.5, 0.01), Culprit(4, "layers.4", None, 0.5, 0.01)),
    )
    fact = CallFact("aten.softmax.int", ("bfloat16",), "s0x8", Verdict.FAIL, "too large", 5, 0, "heavy-tailed")
    found = failures_of(made, (fact,))
    assert [(one.kind.value, one.operator or one.check) for one in found] == [
        ("missing", "aten.gap"), ("fail", "aten.softmax.int"), ("error", "end_to_end.generation"),
        ("error", "aten.a"), ("error", "aten.b"),
    ]  # fmt: skip
    assert (found[1].dtypes, found[1].shape_class) == (("bfloat16",), "s0x8")
    assert "on heavy-tailed inputs: too large" in found[1].said
    assert failures_of(entry("c")) == ()


def known(operator: str, *models: str, kind: FailureKind = FailureKind.FAIL, dtypes: tuple[str, ...] = ()) -> KnownFailure:
    return KnownFailure(
        operator[::-1], kind, "", operator, dtypes, "", "npu", "wrong", None, None, None, None, models, (), ("s1",), NOW, NOW
    )


INVENTORY = OperatorInventory(
    "A",
    (KernelUse("norm.rms", 4),),
    (GraphUse("aten.mm.default", ("bfloat16",), "s0x72,72x72", Phase.PREFILL, 12, ()),),
    None,
)


def test_what_a_model_uses_and_others_failed_with_is_foretold() -> None:
    failures = [
        known("aten.mm.default", "org/a", "org/b", dtypes=("bfloat16",)),
        known("aten.mm.default", "org/a", dtypes=("float16",)),
        known("norm.rms", "org/c"),
        known("aten.other", "org/a"),
        known("norm.rms"),
    ]
    found = foretold(INVENTORY, failures, "s1")
    assert [(one.failure.operator, one.uses) for one in found] == [("aten.mm.default", 12), ("norm.rms", 4)]
    explained = replace(
        found[0].failure, cause="the tile is too small", workaround="pad to 16", owner="kernels", ticket="http://t/1"
    )
    said = sentence(replace(found[0], failure=explained, same_stack=False))
    assert said.endswith(
        "hit 2 models on another stack; cause: the tile is too small; workaround: pad to 16; owner: kernels; http://t/1"
    )


def test_gaps_go_by_what_bridging_them_alone_unlocks() -> None:
    lacking = [
        known("op.common", "org/a", "org/b", "org/c", kind=FailureKind.MISSING),
        known("op.rare", "org/a", "org/b", kind=FailureKind.MISSING),
        known("op.lonely", "org/d", kind=FailureKind.MISSING),
        known("op.wrong", "org/e"),
    ]
    assert [(gap.operator, gap.unlocked) for gap in ranked_gaps(lacking)] == [
        ("op.common", ("org/c",)), ("op.lonely", ("org/d",)), ("op.rare", ()),
    ]  # fmt: skip
