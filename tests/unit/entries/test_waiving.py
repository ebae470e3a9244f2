"""A waived failure no longer makes an entry failing, is shown, and never makes it verified."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from dayzero.domain.entry import CompatibilityEntry, Correctness, EntryKey
from dayzero.domain.planning import Degrees
from dayzero.domain.verdict import Check, CheckLayer, Grade, Mode, Verdict, VerificationReport
from dayzero.domain.waivers import Waiver
from dayzero.stages.entries.deciding import derive_entry
from dayzero.stages.entries.required import END_TO_END, METHOD, requirements
from dayzero.stages.entries.waiving import in_force

NOW = datetime(2026, 12, 1, tzinfo=UTC)
KEY = EntryKey("org/m", "c" * 64, "cpu", "f" * 64, "torch", "bfloat16", Degrees(), Mode.INFERENCE)
LAYERS = "layers.three_way"
WAIVER = Waiver("w" * 32, "org/*", "*", LAYERS, "the vendor mends it", "Ada", NOW + timedelta(days=30), NOW)


def entry_with(verdicts: dict[str, Verdict], *waivers: Waiver) -> CompatibilityEntry:
    layers = {name: need.layer for need in requirements(KEY) for name in need.any_of}
    checks = tuple(
        Check(layers.get(name, CheckLayer.END_TO_END), name, "tp1", verdict, Grade.MEASURED, f"{name} says so")
        for name, verdict in verdicts.items()
    )
    report = VerificationReport(METHOD, "cpu", Mode.INFERENCE, checks)
    return derive_entry(KEY, mode=Mode.INFERENCE, coverage=None, report=report, plan=None, waivers=waivers)


NAMES = tuple(need.any_of[0] for need in requirements(KEY))
ALL_PASS = dict.fromkeys(NAMES, Verdict.PASS)


def test_a_waived_failure_leaves_the_entry_functional_and_says_who_answers() -> None:
    failing = {**ALL_PASS, LAYERS: Verdict.FAIL}
    assert entry_with(failing).correctness is Correctness.FAILING
    waived = entry_with(failing, WAIVER)
    assert waived.correctness is Correctness.FUNCTIONAL
    assert waived.waivers == (WAIVER,) and waived.waived_until == WAIVER.until
    assert f"{LAYERS} at tp1 fails, waived by Ada until 2026-12-31: the vendor mends it" in waived.reason
    assert LAYERS in waived.missing_checks


def test_a_waiver_of_a_check_that_is_not_required_keeps_it_from_verified_too() -> None:
    text = "end_to_end.reference_text"
    entry = entry_with({**ALL_PASS, text: Verdict.FAIL}, replace(WAIVER, check=text))
    assert entry.correctness is Correctness.FUNCTIONAL and entry.missing_checks == ()


def test_without_a_failure_a_waiver_does_nothing() -> None:
    assert entry_with(ALL_PASS, WAIVER) == entry_with(ALL_PASS)
    assert entry_with(ALL_PASS, WAIVER).correctness is Correctness.VERIFIED


def test_a_waived_end_to_end_shows_nothing() -> None:
    entry = entry_with({**ALL_PASS, END_TO_END: Verdict.FAIL}, replace(WAIVER, check=END_TO_END))
    assert entry.correctness is Correctness.UNKNOWN


@given(st.fixed_dictionaries({name: st.sampled_from(Verdict) for name in NAMES}), st.sets(st.sampled_from(NAMES)))
def test_no_waiver_ever_makes_anything_verified(verdicts: dict[str, Verdict], waived: set[str]) -> None:
    bare = entry_with(verdicts)
    entry = entry_with(verdicts, *(replace(WAIVER, id=name, check=name) for name in waived))
    assert (entry.correctness is Correctness.VERIFIED) == (bare.correctness is Correctness.VERIFIED)
    unwaived = [name for name, verdict in verdicts.items() if verdict is Verdict.FAIL and name not in waived]
    assert (entry.correctness is Correctness.FAILING) == bool(unwaived)


def test_which_are_in_force() -> None:
    expired = replace(WAIVER, id="expired", until=NOW)
    ended = replace(WAIVER, id="ended", ended_at=NOW)
    other = replace(WAIVER, id="other", model="other/*")
    longer = replace(WAIVER, id="longer", until=WAIVER.until + timedelta(days=1))
    elsewhere = replace(WAIVER, id="elsewhere", platform="h100")
    given_ = (expired, WAIVER, ended, other, longer, elsewhere)
    assert in_force(given_, "org/m", "cpu", NOW) == (longer, WAIVER)
