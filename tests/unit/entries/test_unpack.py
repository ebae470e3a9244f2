"""Unpacking a bundle: what is in it and nothing else, nowhere else."""

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from dayzero.cli.bundle import unpack
from dayzero.errors import BadInputError
from dayzero.stages.bundle.file import BundleFile
from dayzero.steps.publishing import archive


def tar_of(member: tarfile.TarInfo, data: bytes = b"x") -> io.BytesIO:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        member.size = len(data) if member.isfile() else 0
        tar.addfile(member, io.BytesIO(data))
    return io.BytesIO(gzip.compress(raw.getvalue()))


def test_gives_back_what_was_packed(tmp_path: Path) -> None:
    files = (BundleFile("launch.sh", "echo ü\n", executable=True), BundleFile("deep/entry.json", "{}\n"))
    written = unpack(io.BytesIO(archive(files)), tmp_path / "new")
    assert dict(written) == {"launch.sh": 8, "deep/entry.json": 3}
    assert (tmp_path / "new" / "launch.sh").read_text(encoding="utf-8") == "echo ü\n"
    assert (tmp_path / "new" / "launch.sh").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "new" / "deep" / "entry.json").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("name", ["../escaped", "/absolute", "a/../../escaped"])
def test_nothing_climbs_out(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInputError, match="not unpacked"):
        unpack(tar_of(tarfile.TarInfo(name)), tmp_path / "in")
    assert not (tmp_path / "escaped").exists()


def test_links_are_neither_unpacked_nor_written_through(tmp_path: Path) -> None:
    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with pytest.raises(BadInputError, match="not unpacked"):
        unpack(tar_of(link), tmp_path / "in")
    outside = tmp_path / "outside"
    outside.write_text("kept")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "file").symlink_to(outside)
    unpack(tar_of(tarfile.TarInfo("file"), b"new"), tmp_path / "out")
    assert outside.read_text() == "kept"
    assert (tmp_path / "out" / "file").read_text() == "new"


@pytest.mark.parametrize(
    "data", [b"", b"not gzip", gzip.compress(b"not tar" * 200, mtime=0), gzip.compress(b"x" * 2000, mtime=0)[:30]]
)
def test_a_broken_archive_is_one_sentence(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(BadInputError, match="no archive"):
        unpack(io.BytesIO(data), tmp_path)


def test_damage_anywhere_is_bad_input_or_harmless(tmp_path: Path) -> None:
    whole = archive((BundleFile("a", "text " * 50), BundleFile("b", "more " * 50)))
    for position in range(0, len(whole), 3):
        damaged = whole[:position] + bytes([whole[position] ^ 0x55]) + whole[position + 1 :]
        try:
            unpack(io.BytesIO(damaged), tmp_path / str(position))
        except BadInputError as error:
            assert "no archive" in error.message or "not unpacked" in error.message


def test_a_folder_that_is_a_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInputError, match="cannot be written"):
        unpack(tar_of(tarfile.TarInfo("x")), tmp_path / "file")
