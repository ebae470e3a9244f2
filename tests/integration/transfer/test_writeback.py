"""Beginning with what was written is a hint: it takes nothing away, and what it cannot do is no error."""

import os
from pathlib import Path

import pytest

from dayzero.adapters.transfer import writeback
from dayzero.adapters.transfer.writeback import begin_writing


def test_a_hint_changes_no_byte(tmp_path: Path) -> None:
    path = tmp_path / "shard"
    with path.open("w+b") as file:
        os.pwrite(file.fileno(), b"7" * 100_000, 0)
        begin_writing([file.fileno()])
        os.pwrite(file.fileno(), b"8" * 100_000, 50_000)
        begin_writing([file.fileno()])
    assert path.read_bytes() == b"7" * 50_000 + b"8" * 100_000


def test_what_cannot_be_begun_with_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    try:
        begin_writing([writing])
        monkeypatch.setattr(writeback, "_sync_file_range", None)
        begin_writing([writing])
    finally:
        os.close(reading)
        os.close(writing)
