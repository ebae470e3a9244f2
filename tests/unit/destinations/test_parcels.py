"""Putting and taking over fsspec's own filesystems: whole or not found, gone on with, and nothing hostile believed."""

import hashlib
import sys
import tempfile
from collections import namedtuple
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dayzero import disk
from dayzero.adapters.destinations.place import Place, part_bytes
from dayzero.adapters.destinations.putting import parcel_of, put_files
from dayzero.adapters.destinations.taking import take_files
from dayzero.codec import dump, load
from dayzero.domain.parcels import PARCEL, Parcel, ParcelFile
from dayzero.errors import BadInputError, DependencyError, IntegrityError, NotFoundError, UnavailableError

Usage = namedtuple("Usage", "total used free")
CONTENT = "c" * 64
FILES = {"manifest.json": b"{}", "rank-0.safetensors": b"0" * 5000, "rank-1.safetensors": b"1" * 7000, "tok/a b.json": b"x"}


@pytest.fixture(params=["memory", "local"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "local":
        yield str(tmp_path / "there")
        return
    yield f"memory://{uuid4().hex}/shards"


def written(folder: Path, files: dict[str, bytes] = FILES) -> dict[str, Path]:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return {name: folder / name for name in files}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Stopping:
    """Stops the writes of a place after so many of them, and notes their order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: int | None = None) -> None:
        self.order: list[str] = []
        write = Place.write

        def counted(place: Place, name: str, windows: Iterable[bytes], size_bytes: int = 0) -> None:
            if after is not None and len(self.order) >= after:
                raise UnavailableError("the network went away.")
            write(place, name, windows, size_bytes)
            self.order.append(name)

        monkeypatch.setattr(Place, "write", counted)


def test_there_and_back(url: str, tmp_path: Path) -> None:
    put = put_files(written(tmp_path / "from"), CONTENT, url)
    assert (put.moved_bytes, put.kept_bytes) == (put.parcel.size_bytes, 0)
    took = take_files(url, tmp_path / "to")
    assert contents(tmp_path / "to") == FILES and took.parcel == put.parcel and took.parcel.content_id == CONTENT
    assert put_files(written(tmp_path / "from"), CONTENT, url).moved_bytes == 0
    assert take_files(url, tmp_path / "to").moved_bytes == 0


def test_the_manifest_comes_after_the_ranks_and_the_parcel_last(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = Stopping(monkeypatch).order
    put_files(written(tmp_path / "from"), CONTENT, url)
    assert order[1:] == ["rank-0.safetensors", "rank-1.safetensors", "tok/a b.json", "manifest.json", PARCEL]


def test_a_stopped_put_is_not_found_and_is_gone_on_with(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, pytest.raises(UnavailableError):
        Stopping(patch, after=2)
        put_files(written(tmp_path / "from"), CONTENT, url)
    with pytest.raises(NotFoundError, match="not to its end"):
        take_files(url, tmp_path / "to")
    put = put_files(written(tmp_path / "from"), CONTENT, url)
    assert put.kept_bytes == 5000
    take_files(url, tmp_path / "to")
    assert contents(tmp_path / "to") == FILES


def test_another_parcel_of_equal_sizes_is_never_mixed_in(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_files(written(tmp_path / "old"), CONTENT, url)
    new = {name: content.swapcase()[::-1].replace(b"0", b"2") for name, content in FILES.items()}
    with monkeypatch.context() as patch, pytest.raises(UnavailableError):
        Stopping(patch, after=1)
        put_files(written(tmp_path / "new", new), "d" * 64, url)
    with pytest.raises(NotFoundError):
        take_files(url, tmp_path / "to")
    put = put_files(written(tmp_path / "new", new), "d" * 64, url)
    assert put.kept_bytes == 0
    take_files(url, tmp_path / "to")
    assert contents(tmp_path / "to") == new


def test_a_file_that_changes_while_it_is_sent_is_not_put(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = written(tmp_path / "from")
    monkeypatch.setattr("dayzero.adapters.destinations.putting.parcel_of", lambda *_: changed)
    parcel = parcel_of(files, CONTENT)
    changed = replace(parcel, files=(replace(parcel.files[1], sha256="e" * 64),))
    with pytest.raises(IntegrityError, match="changed while it was sent"):
        put_files(files, CONTENT, url)
    assert Place(url).size(PARCEL) is None


def test_wrong_bytes_get_no_name(url: str, tmp_path: Path) -> None:
    put_files(written(tmp_path / "from"), CONTENT, url)
    Place(url).write("rank-0.safetensors", [b"9" * 5000])
    with pytest.raises(IntegrityError, match=r"rank-0\.safetensors .* its parcel says"):
        take_files(url, tmp_path / "to")
    held = contents(tmp_path / "to")
    assert "rank-0.safetensors" not in held and "manifest.json" not in held
    assert [content for name, content in held.items() if name.endswith(".quarantine")] == [b"9" * 5000]


def test_a_short_answer_is_gone_on_with(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_files(written(tmp_path / "from"), CONTENT, url)
    windows = Place.windows

    def breaking(place: Place, name: str, begin: int, end: int) -> Iterator[bytes]:
        if name.startswith("rank-1") and begin == 0:
            yield from windows(place, name, 0, 3000)
            raise UnavailableError("the network went away.")
        yield from windows(place, name, begin, end)

    monkeypatch.setattr(Place, "windows", breaking)
    with pytest.raises(UnavailableError):
        take_files(url, tmp_path / "to")
    took = take_files(url, tmp_path / "to")
    assert contents(tmp_path / "to") == FILES
    assert took.kept_bytes == 5000 and took.moved_bytes == 4000 + 1 + 2


def test_what_lies_there_is_set_aside_not_lost(url: str, tmp_path: Path) -> None:
    put_files(written(tmp_path / "from"), CONTENT, url)
    written(tmp_path / "to", {"rank-0.safetensors": b"mine"})
    take_files(url, tmp_path / "to")
    assert contents(tmp_path / "to") == FILES | {"rank-0.safetensors.replaced.quarantine": b"mine"}


@pytest.mark.parametrize(
    "hostile",
    [
        ParcelFile("../../outside", 1, "a" * 64),
        ParcelFile("/etc/passwd", 1, "a" * 64),
        ParcelFile("a\\b", 1, "a" * 64),
        ParcelFile("ok", -1, "a" * 64),
        ParcelFile("ok", 1, "not a digest"),
        ParcelFile("rank-0.safetensors", 1, "a" * 64),
        ParcelFile("ok.incomplete", 1, "a" * 64),
    ],
)
def test_a_hostile_parcel_writes_nothing(hostile: ParcelFile, tmp_path: Path) -> None:
    url = f"memory://{uuid4().hex}"
    put = put_files(written(tmp_path / "from"), CONTENT, url)
    Place(url).write(PARCEL, [dump(replace(put.parcel, files=(*put.parcel.files, hostile)))])
    with pytest.raises(BadInputError):
        take_files(url, tmp_path / "to")
    assert not (tmp_path / "to").exists() and not (tmp_path.parent / "outside").exists()


def test_a_parcel_that_is_none_is_named(tmp_path: Path) -> None:
    url = f"memory://{uuid4().hex}"
    Place(url).write(PARCEL, [b"<html>"])
    with pytest.raises(BadInputError, match="not a Parcel"):
        take_files(url, tmp_path / "to")


def test_a_link_in_the_folder_leads_nothing_out(tmp_path: Path) -> None:
    url = f"memory://{uuid4().hex}"
    put_files(written(tmp_path / "from"), CONTENT, url)
    (tmp_path / "to").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "to" / "tok").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInputError, match="link"):
        take_files(url, tmp_path / "to")
    (tmp_path / "to" / "tok").unlink()
    (tmp_path / "elsewhere" / "file").write_bytes(b"mine")
    (tmp_path / "to" / "rank-0.safetensors.incomplete").symlink_to(tmp_path / "elsewhere" / "file")
    with pytest.raises(DependencyError):
        take_files(url, tmp_path / "to")
    assert contents(tmp_path / "elsewhere") == {"file": b"mine"}


def test_no_space_is_said_before_the_first_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"memory://{uuid4().hex}"
    put_files(written(tmp_path / "from"), CONTENT, url)
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda _: Usage(10**6, 10**6 - 100, 100))
    with pytest.raises(DependencyError, match=r"needs 12003 bytes .* 100 are free"):
        take_files(url, tmp_path / "to")
    assert contents(tmp_path / "to") == {}


@pytest.mark.parametrize("name", ["../up", PARCEL, f".{PARCEL}.x.begun", "/abs"])
def test_names_that_cannot_be_put(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(BadInputError):
        put_files({name: tmp_path / "file"}, CONTENT, f"memory://{uuid4().hex}")
    with pytest.raises(BadInputError, match="nothing to put"):
        put_files({}, CONTENT, f"memory://{uuid4().hex}")


def test_places_that_cannot_be_opened_say_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInputError, match="no place that can be opened"):
        Place("nowhere://bucket/x")
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)
    with pytest.raises(DependencyError, match=r"dayzero\[s3\]"):
        Place("s3://user:secret@bucket/x?signature=abc")
    assert Place("memory://user:secret@bucket/x?signature=abc").shown == "memory://bucket/x"
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(DependencyError, match="Not a directory"):
        put_files({"a": tmp_path / "file"}, CONTENT, str(tmp_path / "file" / "below"))


def test_a_rank_of_a_terabyte_fits_into_the_parts_that_s3_takes() -> None:
    assert part_bytes(0) == part_bytes(10**9) == 50 << 20
    for size_bytes in (10**12, 5 * 10**12):
        assert part_bytes(size_bytes) * 10_000 >= size_bytes


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["manifest.json", "a", "b", "c/d", "c/e"]), st.binary(max_size=30), min_size=1),
    st.lists(st.integers(0, 5), max_size=4),
)
def test_however_often_it_stops_it_ends_whole(files: dict[str, bytes], stops: list[int]) -> None:
    url = f"memory://{uuid4().hex}"
    with tempfile.TemporaryDirectory() as folder:
        here = written(Path(folder) / "from", files)
        for stop in stops:
            with pytest.MonkeyPatch.context() as patch:
                Stopping(patch, after=stop)
                try:
                    put_files(here, CONTENT, url)
                except UnavailableError:
                    assert Place(url).size(PARCEL) is None
        put = put_files(here, CONTENT, url)
        assert load(Parcel, Place(url).read_small(PARCEL, 10**6) or b"") == put.parcel
        take_files(url, Path(folder) / "to")
        assert contents(Path(folder) / "to") == files
        assert {file.path: file.sha256 for file in put.parcel.files} == {
            name: hashlib.sha256(content).hexdigest() for name, content in files.items()
        }
