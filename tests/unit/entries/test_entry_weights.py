"""What an entry asks of the weights that it was measured on: whole as released, and of the planned sizes."""

import re
from dataclasses import replace

import pytest

from dayzero.domain.entry import Correctness
from dayzero.domain.plan import PlanReport
from dayzero.domain.planning import Degrees, Workload
from dayzero.domain.shards import ShardFile, ShardManifest, ShardSource, ShardTensor
from dayzero.domain.verdict import Check, Verdict
from dayzero.stages.entries.deciding import integrity_check, weights_check
from entry_scenes import ALL_PASS, TWO, checks, derive, planned, shards

SOURCES = (ShardSource("a.safetensors", 10, "a" * 64, True), ShardSource("b.safetensors", 10, "b" * 64, True))
WRITTEN = ShardManifest("c" * 64, Degrees(tp=3), (), sources=SOURCES)
UNVERIFIED = [
    (replace(WRITTEN, sources=(SOURCES[0], replace(SOURCES[1], verified=False))), "1 of 2 source files .*: b.safetensors"),
    (replace(WRITTEN, sources=(SOURCES[0], replace(SOURCES[1], sha256=None, verified=False)), vouched_by="0" * 16), "1 of 2"),
    (replace(WRITTEN, sources=()), "do not say which files"),
]


def on_weights(manifest: ShardManifest) -> tuple[Check, ...]:
    """Everything passes, measured on these weights."""
    return (*checks({**ALL_PASS, "weights.integrity": None}), integrity_check(manifest))


@pytest.mark.parametrize("manifest, says", UNVERIFIED, ids=[one[1] for one in UNVERIFIED])
def test_nothing_built_on_unverified_weights_is_verified(manifest: ShardManifest, says: str) -> None:
    entry = derive(on_weights(manifest))
    assert entry.correctness is Correctness.FUNCTIONAL and not entry.verified
    assert entry.missing_checks == ("weights.integrity",)
    assert entry.reason.startswith("end to end passes; not shown: weights.integrity; unverified weights: ")
    assert re.search(says, entry.reason)
    alone = derive((integrity_check(manifest),))
    assert alone.correctness is Correctness.UNKNOWN and "unverified weights" in alone.reason


def test_weights_that_nobody_spoke_of_are_no_verified_ones() -> None:
    entry = derive(checks({**ALL_PASS, "weights.integrity": None}))
    assert entry.correctness is Correctness.FUNCTIONAL and entry.missing_checks == ("weights.integrity",)


@pytest.mark.parametrize("key_id, says", [("", "all 2 source files passed whole"), ("5" * 16, f"trusted key {'5' * 16}")])
def test_hashed_and_vouched_weights_carry_an_entry(key_id: str, says: str) -> None:
    found = on_weights(replace(WRITTEN, vouched_by=key_id))
    assert derive(found).correctness is Correctness.VERIFIED and says in found[-1].reason


def test_what_fails_on_unverified_weights_fails() -> None:
    found = on_weights(replace(WRITTEN, sources=()))
    failing = tuple(replace(one, verdict=Verdict.FAIL) if one.check == "model.perplexity" else one for one in found)
    assert derive(failing).correctness is Correctness.FAILING


def test_planned_weight_bytes_must_equal_the_written_ones() -> None:
    exact = weights_check(planned(10, 12), shards(10, 12))
    assert (exact.verdict, exact.measured, exact.n) == (Verdict.PASS, 0.0, 2)
    off = weights_check(planned(10, 12), shards(10, 13))
    assert (off.verdict, off.measured) == (Verdict.FAIL, 1.0)
    assert "rank 1" in off.reason
    swapped = weights_check(planned(10, 12), shards(12, 10))
    assert swapped.verdict is Verdict.FAIL


def test_ranks_that_hold_the_same_bytes_are_an_error_whatever_their_number() -> None:
    """Of a matrix that is cut in two, each rank has 8 rows of 8 bytes."""
    cut = [ShardTensor("w.weight", "U8", (8, 8), 0, 8 * rank, 8 * rank + 8, "f", 80, 144) for rank in range(2)]

    def manifest(*digests: str) -> ShardManifest:
        return ShardManifest("c" * 64, TWO, tuple(
            ShardFile(rank, f"{rank}.safetensors", 144, "a" * 64, (cut[rank],), tensor_digests=(digest,))
            for rank, digest in enumerate(digests)
        ))  # fmt: skip

    assert weights_check(planned(64, 64), manifest("1" * 32, "2" * 32)).verdict is Verdict.PASS
    same = weights_check(planned(64, 64), manifest("1" * 32, "1" * 32))
    assert same.verdict is Verdict.ERROR and "w.weight (ranks 0 and 1)" in same.reason


@pytest.mark.parametrize(
    ("plan", "manifest", "verdict"),
    [
        (PlanReport("cpu", Workload(), None, (), (), 0), shards(1, 1), Verdict.NOT_RUN),
        (planned(1, 1), shards(), Verdict.NOT_RUN),
        (planned(1, 1), shards(1, 1, digest=None), Verdict.NOT_RUN),
        (planned(1, 1), shards(1, 1, degrees=Degrees(pp=2)), Verdict.ERROR),
        (planned(1, None), shards(1, 1), Verdict.ERROR),
        (planned(1), shards(1, 1), Verdict.ERROR),
        (planned(1, 1), shards(1, 1, 1), Verdict.ERROR),
    ],
)
def test_weight_bytes_that_cannot_be_compared_are_neither_pass_nor_fail(
    plan: PlanReport, manifest: ShardManifest, verdict: Verdict
) -> None:
    found = weights_check(plan, manifest)
    assert found.verdict is verdict
    assert found.measured is None
