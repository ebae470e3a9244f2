"""Whole writes and their refusals, on a real folder; a disk that fails is played by os functions that raise."""

import errno
import os
from collections import namedtuple
from pathlib import Path

import pytest

from dayzero import disk
from dayzero.errors import DependencyError

Usage = namedtuple("Usage", "total used free")


def test_a_whole_write_takes_the_place_of_the_old_file_and_leaves_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.json"
    disk.write_whole(path, b"old")
    disk.write_whole(path, b"new", mode=0o600)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("code", "remedy"),
    [(errno.ENOSPC, "Free some space"), (errno.EDQUOT, "Free some space"), (errno.EROFS, "may be written to")],
)
def test_a_refused_write_leaves_the_old_file_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, remedy: str
) -> None:
    path = tmp_path / "file.json"
    disk.write_whole(path, b"old")

    def refuse(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(disk.os, "fsync", refuse)
    with pytest.raises(DependencyError, match=r"file\.json cannot be written") as refused:
        disk.write_whole(path, b"new")
    assert os.strerror(code) in refused.value.message
    assert remedy in str(refused.value.remedy)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_kernel_that_takes_little_at_once_gets_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bytes(range(256)) * 5
    pwrite = os.pwrite
    monkeypatch.setattr(disk.os, "pwrite", lambda descriptor, data, at: pwrite(descriptor, bytes(data)[:7], at))
    with (tmp_path / "file").open("wb") as stream:
        disk.write_all(stream.fileno(), memoryview(whole), 3)
    assert (tmp_path / "file").read_bytes() == b"\0\0\0" + whole


def test_room_is_asked_of_the_disk_that_a_folder_will_be_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def usage(place: Path) -> Usage:
        asked.append(place)
        return Usage(100, 90, 10)

    monkeypatch.setattr(disk.shutil, "disk_usage", usage)
    disk.require_space(tmp_path / "not" / "there", 0, "nothing")
    with pytest.raises(DependencyError, match=r"this needs 1 bytes under .*there, and 10 are free") as refused:
        disk.require_space(tmp_path / "not" / "there", 1, "this")
    assert "DAYZERO_DATA_DIR" in str(refused.value.remedy)
    assert set(asked) == {tmp_path}
