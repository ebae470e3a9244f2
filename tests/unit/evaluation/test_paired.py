"""Paired outcomes: the exact test against a table, against enumeration, and what a number of items can see."""

import itertools
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from dayzero.domain.evaluation import FindingOutcome, PairedOutcomes
from dayzero.stages.evaluation.binomial import fair_tail, lower_tail, mass, upper_tail
from dayzero.stages.evaluation.paired import compare, compare_shares, exact_p
from dayzero.stages.evaluation.power import fewest_discordant, most_for_finding, power_of, smallest_difference
from dayzero.stages.evaluation.shares import difference_interval, share_interval
from paired_outcomes import DOCUMENT, TABLE, document

COUNTS = some.integers(0, 60)


def pairs(row: dict[str, Any]) -> PairedOutcomes:
    return PairedOutcomes(row["both"], row["b"], row["c"], row["n"] - row["both"] - row["b"] - row["c"])


@pytest.mark.parametrize("row", TABLE, ids=[f"{row['b']}-{row['c']}-of-{row['n']}" for row in TABLE])
def test_the_table_of_paired_outcomes(row: dict[str, Any]) -> None:
    found = compare(pairs(row))
    assert found.p_value == pytest.approx(row["p_decimal"], rel=1e-12)
    if "p" in row:
        assert found.p_value == float(Fraction(row["p"]))
    assert found.outcome is (FindingOutcome.FINDING if row["finding"] else FindingOutcome.NO_FINDING)
    assert f"{row['b']} items by the reference alone, {row['c']} by the target alone" in found.reason


def test_24_against_26_percent_of_50_is_no_finding_however_the_answers_pair() -> None:
    found = compare_shares(12, 13, 50)
    assert found.outcome is FindingOutcome.NO_FINDING
    assert found.difference == pytest.approx(0.02)


def test_n_decides_whether_0643_against_0541_is_a_finding() -> None:
    large = compare_shares(round(0.64285 * 900), round(0.54145 * 900), 900)
    assert large.outcome is FindingOutcome.FINDING and (large.p_value or 1.0) < 0.001
    assert compare_shares(9, 8, 14).outcome is FindingOutcome.NO_FINDING
    between = compare_shares(round(0.64285 * 150), round(0.54145 * 150), 150)
    assert between.outcome is FindingOutcome.UNKNOWN
    assert "hangs on the answers, item by item" in between.reason and between.p_value is None


def test_too_few_items_are_unknown_not_no_finding() -> None:
    found = compare(PairedOutcomes(0, 5, 0, 0))
    assert (found.outcome, found.p_value, found.smallest_difference) == (FindingOutcome.UNKNOWN, None, None)
    assert "5 items can show no difference" in found.reason
    assert compare(PairedOutcomes(0, 0, 0, 0)).outcome is FindingOutcome.UNKNOWN
    assert fewest_discordant() == 6


def test_impossible_totals_are_refused() -> None:
    with pytest.raises(ValueError, match="no shares"):
        compare_shares(51, 3, 50)


@given(b=some.integers(0, 7), c=some.integers(0, 7))
def test_p_is_that_of_every_sequence_of_throws(b: int, c: int) -> None:
    thrown = [sum(throws) for throws in itertools.product((0, 1), repeat=b + c)]
    as_far = sum(abs(2 * heads - b - c) >= abs(b - c) for heads in thrown)
    assert exact_p(b, c) == as_far / len(thrown)


@given(b=COUNTS, c=COUNTS)
def test_p_is_a_probability_that_does_not_care_which_run_is_which(b: int, c: int) -> None:
    assert 0.0 < exact_p(b, c) == exact_p(c, b) <= 1.0


@given(m=some.integers(1, 120), data=some.data())
def test_a_more_lopsided_split_is_never_less_of_a_finding(m: int, data: some.DataObject) -> None:
    c = data.draw(some.integers(1, max(1, m // 2)))
    assert exact_p(m - c + 1, c - 1) <= exact_p(m - c, c)


@given(b=COUNTS, c=COUNTS, both=COUNTS, neither=COUNTS)
def test_the_interval_of_a_difference_leaves_out_zero_exactly_at_a_finding(b: int, c: int, both: int, neither: int) -> None:
    found = compare(PairedOutcomes(both, b, c, neither))
    if found.outcome is FindingOutcome.UNKNOWN:
        return
    inner = found.difference_interval
    assert inner is not None and found.difference is not None
    assert inner.low - 1e-12 <= found.difference <= inner.high + 1e-12
    assert (inner.low > 0 or inner.high < 0) is (found.outcome is FindingOutcome.FINDING)


@given(reference=some.integers(0, 40), target=some.integers(0, 40), data=some.data())
def test_totals_alone_never_say_more_than_the_pairs(reference: int, target: int, data: some.DataObject) -> None:
    n = 40
    both = data.draw(some.integers(max(0, reference + target - n), min(reference, target)))
    paired = compare(PairedOutcomes(both, reference - both, target - both, n - reference - target + both))
    totals = compare_shares(reference, target, n)
    assert totals.outcome in (paired.outcome, FindingOutcome.UNKNOWN)


def test_tails_are_sums_of_masses() -> None:
    for n, p in ((1, 0.3), (17, 0.02), (40, 0.5), (60, 0.97), (9, 0.0), (9, 1.0)):
        for k in range(-1, n + 2):
            assert lower_tail(k, n, p) == pytest.approx(sum(mass(i, n, p) for i in range(k + 1)), abs=1e-12)
            assert upper_tail(k, n, p) == pytest.approx(sum(mass(i, n, p) for i in range(max(k, 0), n + 1)), abs=1e-12)
    assert fair_tail(3, 9) == sum(math.comb(9, k) for k in range(4)) / 512


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [(0, 10, 0.0, 1 - 0.025**0.1), (10, 10, 0.025**0.1, 1.0), (0, 1, 0.0, 0.975), (5, 10, 0.187086, 0.812914)],
)
def test_intervals_of_shares_have_their_known_ends(hits: int, n: int, low: float, high: float) -> None:
    found = share_interval(hits, n)
    assert found is not None
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-6), pytest.approx(high, abs=1e-6))


@pytest.mark.parametrize("share", [0.05, 0.3, 0.62, 0.97])
def test_intervals_cover_at_least_what_they_state(share: float) -> None:
    n = 23
    covered = 0.0
    for hits in range(n + 1):
        found = share_interval(hits, n)
        assert found is not None
        covered += mass(hits, n, share) * (found.low <= share <= found.high)
    assert covered >= 0.95


@pytest.mark.parametrize(("difference", "share"), [(0.0, 0.1), (0.2, 0.3), (-0.5, 0.5)])
def test_intervals_of_differences_cover_at_least_what_they_state(difference: float, share: float) -> None:
    n, covered = 12, 0.0
    odds = ((share - difference) / 2, (share + difference) / 2, 1 - share)
    for b in range(n + 1):
        for c in range(n + 1 - b):
            found = difference_interval(PairedOutcomes(0, b, c, n - b - c))
            assert found is not None and found.confidence == pytest.approx(0.9)
            likely = math.comb(n, b) * math.comb(n - b, c) * odds[0] ** b * odds[1] ** c * odds[2] ** (n - b - c)
            covered += likely * (found.low <= difference <= found.high)
    assert covered >= 0.9


def test_no_items_have_no_interval() -> None:
    assert share_interval(0, 0) is None and difference_interval(PairedOutcomes(0, 0, 0, 0)) is None


@pytest.mark.parametrize(("difference", "share"), [(0.3, 0.4), (0.6, 0.2), (0.0, 0.5)])
def test_power_is_that_of_every_outcome(difference: float, share: float) -> None:
    n, share_used = 9, max(share, difference)
    odds = ((share_used + difference) / 2, (share_used - difference) / 2, 1 - share_used)
    found = 0.0
    for b in range(n + 1):
        for c in range(n + 1 - b):
            if exact_p(b, c) <= 0.05:
                ways = math.comb(n, b) * math.comb(n - b, c)
                found += ways * odds[0] ** b * odds[1] ** c * odds[2] ** (n - b - c)
    assert power_of(n, difference, share) == pytest.approx(found, abs=1e-9)


@given(m=some.integers(0, 200))
def test_the_border_of_a_finding_is_the_tests_own(m: int) -> None:
    most = most_for_finding(m)
    assert most < 0 or exact_p(m - most, most) <= 0.05
    assert 2 * most + 2 > m or exact_p(m - most - 1, most + 1) > 0.05


def test_the_smallest_difference_is_where_power_reaches_what_was_asked() -> None:
    seen = smallest_difference(100, 0.1)
    assert seen is not None
    assert power_of(100, seen, 0.1) >= 0.8 > power_of(100, seen - 0.001, 0.1)
    more = smallest_difference(1000, 0.1)
    assert more is not None and more < seen
    assert smallest_difference(5, 0.1) is None
    assert smallest_difference(6, 0.0) is not None


def test_the_page_of_paired_outcomes_is_what_the_table_gives() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run `python tests/paired_outcomes.py`"
