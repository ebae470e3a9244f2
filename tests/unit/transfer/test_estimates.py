"""Before anything large moves: what it takes, in words, and who has to agree."""

from dataclasses import replace
from pathlib import Path

import pytest

from dayzero.adapters.transfer.rates import Rates
from dayzero.domain.transfers import TransferEstimate
from dayzero.errors import BlockedError
from dayzero.stages.transfer.estimating import estimate_sentence, needs_approval, shown_duration
from dayzero.steps.shards import fetch_step
from fakes_bench import make_bench

LARGE = TransferEstimate("hf:a/b", 6 * 10**12, 3 * 10**12, 10**12, 96_000, 10**9, 125e6)


def test_the_sentence_has_bytes_time_and_disk() -> None:
    assert estimate_sentence(LARGE) == (
        "hf:a/b: 6.0 TB to download (1.0 GB of them read over) in 96,000 requests, about 13 h 20 min, 3.0 TB on the disk,"
        " 1.0 TB free."
    )
    unknown = estimate_sentence(replace(LARGE, bytes_per_s=None, free_bytes=None))
    assert "time unknown" in unknown and "free" not in unknown
    assert [shown_duration(seconds) for seconds in (0.4, 59.6, 61, 3600)] == ["0 s", "1 min 0 s", "1 min 1 s", "1 h 0 min"]


def test_the_limit_is_the_first_amount_that_waits() -> None:
    assert needs_approval(LARGE, 6 * 10**12) and not needs_approval(LARGE, 6 * 10**12 + 1)
    assert needs_approval(replace(LARGE, download_bytes=0), 0)


def test_nothing_moves_before_somebody_agrees(tmp_path: Path) -> None:
    made = make_bench(tmp_path)
    asked: list[TransferEstimate] = []
    small = replace(made.bench, approve_below_bytes=1 << 60, approve=asked.append)
    fetch_step(small, made.lease)
    assert made.transfer.fetched and not asked, "what is small needs nobody"
    made.transfer.fetched.clear()
    with pytest.raises(BlockedError, match=r"not begun without approval: .* to download.*--yes"):
        fetch_step(replace(made.bench, approve_below_bytes=1), made.lease)
    assert not made.transfer.fetched
    fetch_step(replace(small, approve_below_bytes=1), made.lease)
    assert made.transfer.fetched and asked[0].download_bytes > 0


def test_rates_are_learnt_and_a_broken_book_costs_only_the_knowledge(tmp_path: Path) -> None:
    book = tmp_path / "deep" / "rates.json"
    rates = Rates(book)
    assert rates.known("https://hub") is None
    rates.learn("https://hub", 1 << 30, 4.0)
    rates.learn("https://hub", 100, 1e-9)
    assert Rates(book).known("https://hub") == (1 << 30) / 4.0
    for broken in (b"{", b"[]", b'{"https://hub": "x"}', b"\xff"):
        book.write_bytes(broken)
        assert Rates(book).known("https://hub") is None
    assert Rates(None).known("https://hub") is None
