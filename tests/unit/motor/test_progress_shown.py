"""What people read of bytes on their way, and keys that Prefect takes."""

import re

from hypothesis import given
from hypothesis import strategies as st

from dayzero.adapters.prefect.artifacts import artifact_key, describe_progress, shown_bytes


def test_progress_tells_bytes_rate_and_time_left() -> None:
    assert describe_progress("Fetch", 250_000_000, 1_000_000_000, 5.0) == "Fetch: 250.0 MB of 1.0 GB, 50.0 MB/s, 15 s left"


def test_unknown_totals_and_rates_stay_unknown() -> None:
    assert describe_progress("Fetch", 10, None, 1.0) == "Fetch: 10 B, 10 B/s"
    assert "time left unknown" in describe_progress("Fetch", 0, 10, 0.0)


@given(st.lists(st.text(), min_size=1), st.just("step"))
def test_keys_are_words_and_dashes(parts: list[str], last: str) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", artifact_key(*parts, last))


@given(st.integers(min_value=0, max_value=10**18))
def test_bytes_always_have_a_unit(count: int) -> None:
    assert re.fullmatch(r"\d+(\.\d)? (B|kB|MB|GB|TB)", shown_bytes(count))
