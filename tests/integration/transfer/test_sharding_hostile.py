"""Sharding when the world is against it: wrong hashes, changing files, links, names, full disks, torn journals."""

import errno
import hashlib
import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from dayzero.adapters.hubs.digests import git_blob_id
from dayzero.adapters.transfer import flushing, output, sink
from dayzero.adapters.transfer.sharding import write_shards
from dayzero.adapters.transfer.verifying import read_manifest, verify_shards
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import Integrity, ShardManifest, WeightsState
from dayzero.errors import BadInputError, DependencyError, IntegrityError
from wide_checkpoints import Written, dense, write_checkpoint

pytest.importorskip("numpy")
pytestmark = pytest.mark.torch
CONFIG = {**dense(2, hidden=128), "vocab_size": 512}


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return write_checkpoint(tmp_path / "model", CONFIG, files=3)


@pytest.fixture
def layout(written: Written) -> ShardManifest:
    return written.layout(Degrees(tp=4))


def stated(written: Written) -> dict[str, str]:
    return {file: hashlib.sha256((written.folder / file).read_bytes()).hexdigest() for file in written.files}


def spoil(path: Path, at: int = -1) -> bytes:
    """Turn a bit of a file and keep its times; returns what it was."""
    before, times = path.read_bytes(), path.stat()
    changed = bytearray(before)
    changed[at] ^= 1
    path.write_bytes(changed)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    return before


def visible(into: Path) -> list[str]:
    return sorted(path.name for path in into.glob("rank-*") if path.suffix == ".safetensors") if into.exists() else []


def test_the_manifest_says_what_passed(written: Written, layout: ShardManifest, tmp_path: Path) -> None:
    known = stated(written)
    manifest = write_shards(written.folder, layout, tmp_path / "a", None, stated={written.files[0]: known[written.files[0]]})
    assert {source.path: source.sha256 for source in manifest.sources} == known
    assert [source.verified for source in manifest.sources] == [True, False, False]
    unhashed = write_shards(written.folder, layout, tmp_path / "b", None, integrity=Integrity.NONE)
    assert {source.sha256 for source in unhashed.sources} == {None} and not any(one.verified for one in unhashed.sources)
    assert unhashed.files == manifest.files
    assert 'tensor_digests":["' not in (tmp_path / "a" / "manifest.json").read_text()
    lines = (tmp_path / "a" / "rank-00000.safetensors.xxh3").read_text().splitlines()
    first = layout.files[0].tensors[0].name
    assert lines[0] == f"{manifest.files[0].tensor_digests[0]}  {json.dumps(first)}"


def test_shards_without_hashes_are_not_kept_when_hashes_are_wanted(
    written: Written, layout: ShardManifest, tmp_path: Path
) -> None:
    write_shards(written.folder, layout, tmp_path / "out", None, integrity=Integrity.NONE)
    inode = (tmp_path / "out" / "rank-00000.safetensors").stat().st_ino
    write_shards(written.folder, layout, tmp_path / "out", None, stated=stated(written))
    kept = (tmp_path / "out" / "rank-00000.safetensors").stat().st_ino
    assert kept != inode
    write_shards(written.folder, layout, tmp_path / "out", None, integrity=Integrity.NONE)
    assert (tmp_path / "out" / "rank-00000.safetensors").stat().st_ino == kept


def test_a_source_with_another_hash_makes_no_shard(written: Written, layout: ShardManifest, tmp_path: Path) -> None:
    into, known = tmp_path / "out", stated(written)
    right = spoil(written.folder / written.files[1])
    with pytest.raises(
        IntegrityError, match=rf"{written.files[1]} has the sha256 [0-9a-f]{{64}}, its release states [0-9a-f]{{64}}"
    ):
        write_shards(written.folder, layout, into, None, stated=known)
    assert visible(into) == [] and read_manifest(into) is None
    assert len(list(into.glob("*.incomplete"))) == 4
    with pytest.raises(IntegrityError):
        write_shards(written.folder, layout, into, None, stated=known)
    (written.folder / written.files[1]).write_bytes(right)
    manifest = write_shards(written.folder, layout, into, None, stated=known)
    assert manifest == write_shards(written.folder, layout, tmp_path / "plain", None, stated=known)


def test_a_source_that_is_replaced_between_two_runs_passes_again(
    written: Written, layout: ShardManifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(self: sink.Sink, **_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(sink.Sink, "commit", stop)
        with pytest.raises(KeyboardInterrupt):
            write_shards(written.folder, layout, tmp_path / "out", None)
    other = bytearray((written.folder / written.files[0]).read_bytes())
    other[-1] ^= 1
    (written.folder / written.files[0]).write_bytes(other)
    manifest = write_shards(written.folder, layout, tmp_path / "out", None)
    assert manifest == write_shards(written.folder, layout, tmp_path / "plain", None)


def test_a_source_that_changes_while_it_passes(written: Written, layout: ShardManifest, tmp_path: Path) -> None:
    def change(done: int, total: int | None) -> None:
        os.truncate(written.folder / written.files[0], 1000)

    with pytest.raises(BadInputError, match="changed while it was being read"):
        write_shards(written.folder, layout, tmp_path / "out", change)
    assert visible(tmp_path / "out") == []


@pytest.mark.parametrize("name", ["rank-00002.safetensors.incomplete", ".lock", ".journal", "manifest.json"])
def test_links_in_the_output_folder_are_not_followed(
    written: Written, layout: ShardManifest, tmp_path: Path, name: str
) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"precious")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).symlink_to(precious)
    with pytest.raises(BadInputError, match="is a symbolic link; nothing was written there"):
        write_shards(written.folder, layout, tmp_path / "out", None)
    assert precious.read_bytes() == b"precious" and visible(tmp_path / "out") == []
    (tmp_path / "out" / name).unlink()
    (tmp_path / "out" / name).hardlink_to(precious)
    with pytest.raises(BadInputError, match="is one of 2 names of a file"):
        write_shards(written.folder, layout, tmp_path / "out", None)
    assert precious.read_bytes() == b"precious"


def test_a_link_under_a_final_name_is_replaced_and_its_target_left_alone(
    written: Written, layout: ShardManifest, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"precious")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "rank-00000.safetensors").symlink_to(precious)
    write_shards(written.folder, layout, tmp_path / "out", None)
    assert precious.read_bytes() == b"precious"
    assert stat.S_ISREG((tmp_path / "out" / "rank-00000.safetensors").lstat().st_mode)


@pytest.mark.parametrize("path", ["manifest.json", ".journal", "x.incomplete", "x.quarantined", "x.xxh3", "a\\b", "a\0b"])
def test_names_that_the_folder_needs_itself(written: Written, layout: ShardManifest, tmp_path: Path, path: str) -> None:
    hostile = replace(layout, files=(replace(layout.files[0], path=path), *layout.files[1:]))
    with pytest.raises(BadInputError, match="names a shard"):
        write_shards(written.folder, hostile, tmp_path / "out", None)
    twice = replace(layout, files=(layout.files[0], replace(layout.files[1], path=layout.files[0].path)))
    with pytest.raises(BadInputError, match="twice"):
        write_shards(written.folder, twice, tmp_path / "out", None)


def test_a_shard_in_the_place_of_its_source(written: Written, layout: ShardManifest) -> None:
    hostile = replace(layout, files=(replace(layout.files[0], path=written.files[0]), *layout.files[1:]))
    before = (written.folder / written.files[0]).read_bytes()
    with pytest.raises(BadInputError, match="is a source of the shards"):
        write_shards(written.folder, hostile, written.folder, None)
    assert (written.folder / written.files[0]).read_bytes() == before


def test_space_that_cannot_be_reserved_leaves_nothing(
    written: Written, layout: ShardManifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(output.os, "posix_fallocate", full)
    with pytest.raises(DependencyError, match=r"under .* cannot be written: No space left on device"):
        write_shards(written.folder, layout, tmp_path / "out", None)
    assert list((tmp_path / "out").glob("rank*")) == []


def test_a_disk_that_fails_meanwhile_loses_nothing(
    written: Written, layout: ShardManifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(flushing.os, "fdatasync", broken)
        with pytest.raises(DependencyError, match=r"under .* cannot be written: Input/output error"):
            write_shards(written.folder, layout, tmp_path / "out", None)
    assert visible(tmp_path / "out") == []
    write_shards(written.folder, layout, tmp_path / "out", None)
    verify_shards(tmp_path / "out")


def test_a_folder_that_cannot_be_written(written: Written, layout: ShardManifest, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DependencyError, match=r"cannot be written: (Not a directory|File exists)"):
        write_shards(written.folder, layout, tmp_path / "file", None)
    if os.geteuid():
        (tmp_path / "closed").mkdir(mode=0o500)
        with pytest.raises(DependencyError, match="Permission denied"):
            write_shards(written.folder, layout, tmp_path / "closed", None)
    else:
        with pytest.raises(DependencyError, match="cannot be written"):
            write_shards(written.folder, layout, Path("/proc/none/shards"), None)


def test_sources_that_passed_unhashed_are_hashed_before_they_count(
    written: Written, layout: ShardManifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(self: sink.Sink, **_: object) -> None:
        raise KeyboardInterrupt

    known = stated(written)
    right = spoil(written.folder / written.files[2])
    with monkeypatch.context() as patched:
        patched.setattr(sink.Sink, "commit", stop)
        with pytest.raises(KeyboardInterrupt):
            write_shards(written.folder, layout, tmp_path / "out", None, integrity=Integrity.NONE)
    with pytest.raises(IntegrityError, match=written.files[2]):
        write_shards(written.folder, layout, tmp_path / "out", None, stated=known)
    (written.folder / written.files[2]).write_bytes(right)
    manifest = write_shards(written.folder, layout, tmp_path / "out", None, stated=known)
    assert all(source.verified for source in manifest.sources)
    assert manifest == write_shards(written.folder, layout, tmp_path / "plain", None, stated=known)


@pytest.mark.parametrize("torn", [b"", b"junk\n", b"0123456789abcdef {}\n", None])
def test_a_torn_journal_is_believed_up_to_its_last_whole_line(
    written: Written, layout: ShardManifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torn: bytes | None
) -> None:
    def stop(self: sink.Sink, **_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(sink.Sink, "commit", stop)
        with pytest.raises(KeyboardInterrupt):
            write_shards(written.folder, layout, tmp_path / "out", None, checkpoint_bytes=10_000)
    journal = tmp_path / "out" / ".journal"
    whole = journal.read_bytes()
    assert whole.count(b"\n") > 6
    journal.write_bytes(torn if torn is not None else whole[: len(whole) * 2 // 3])
    manifest = write_shards(written.folder, layout, tmp_path / "out", None)
    assert manifest == write_shards(written.folder, layout, tmp_path / "plain", None) == verify_shards(tmp_path / "out")


@pytest.mark.parametrize("change", ["gone", "spoilt", "other"])
def test_verify_names_what_is_wrong(written: Written, layout: ShardManifest, tmp_path: Path, change: str) -> None:
    into = tmp_path / "out"
    with pytest.raises(BadInputError, match="no shards were ever completed"):
        verify_shards(into)
    write_shards(written.folder, layout, into, None)
    if change == "gone":
        (into / "rank-00003.safetensors").unlink()
    elif change == "spoilt":
        spoil(into / "rank-00003.safetensors", at=20)
    else:
        spoil(into / "rank-00003.safetensors.xxh3", at=4)
    said = {"gone": "No such file", "spoilt": "its size or header", "other": "its digests|tensor "}[change]
    with pytest.raises(IntegrityError, match=rf"rank-00003\.safetensors \(({said})"):
        verify_shards(into)
    write_shards(written.folder, layout, into, None)
    verify_shards(into)


def test_a_git_blob_id_is_a_digest_too(written: Written, layout: ShardManifest, tmp_path: Path) -> None:
    known = {file: git_blob_id((written.folder / file).read_bytes()) for file in written.files}
    manifest = write_shards(written.folder, layout, tmp_path / "out", None, stated=known)
    assert manifest.state is WeightsState.HASHED and {source.path: source.sha256 for source in manifest.sources} == known
    with pytest.raises(IntegrityError, match=written.files[0]):
        write_shards(written.folder, layout, tmp_path / "other", None, stated={**known, written.files[0]: "0" * 40})
