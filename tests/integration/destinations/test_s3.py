"""A real S3 API on a loopback port (moto): shards and releases there and back, and what is said when it refuses."""

import logging
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from dayzero.adapters.destinations.place import Place
from dayzero.adapters.destinations.putting import put_files
from dayzero.adapters.destinations.taking import take_files
from dayzero.domain.parcels import PARCEL
from dayzero.errors import BlockedError, IntegrityError, NotFoundError, UnavailableError

pytestmark = pytest.mark.slow
pytest.importorskip("s3fs")
server_module = pytest.importorskip("moto.server")
LARGE = b"0123456789abcdef" * (1 << 20)


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The endpoint, with one bucket `weights`; credentials are in the environment."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_MAX_ATTEMPTS": "1",
    }.items():
        monkeypatch.setenv(name, value)
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    files = fsspec.filesystem("s3", use_listings_cache=False)
    if not files.exists("weights"):
        files.mkdir("weights")
    yield f"http://{host}:{port}"
    files.rm("weights", recursive=True)
    server.stop()
    fsspec.get_filesystem_class("s3").clear_instance_cache()


def written(folder: Path) -> dict[str, Path]:
    files = {"manifest.json": b"{}", "rank-0.safetensors": LARGE * 4 + b"tail", "empty": b"", "tok/a b.json": b"{}"}
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return {name: folder / name for name in files}


def test_there_and_back(s3: str, tmp_path: Path) -> None:
    files = written(tmp_path / "from")
    put = put_files(files, "c" * 64, "s3://weights/some/folder")
    assert put.moved_bytes == put.parcel.size_bytes == sum(path.stat().st_size for path in files.values())
    took = take_files("s3://weights/some/folder", tmp_path / "to")
    assert took.moved_bytes == put.moved_bytes
    assert {name: (tmp_path / "to" / name).read_bytes() for name in files} == {n: p.read_bytes() for n, p in files.items()}
    assert put_files(files, "c" * 64, "s3://weights/some/folder").moved_bytes == 0


def test_a_put_that_breaks_publishes_nothing_cut_short(s3: str, tmp_path: Path) -> None:
    place = Place("s3://weights/x")

    def breaking() -> Iterator[bytes]:
        yield LARGE * 4
        raise UnavailableError("the disk went away.")

    with pytest.raises(UnavailableError):
        place.write("rank", breaking())
    assert place.size("rank") is None
    files = written(tmp_path / "from")
    put_files(files, "c" * 64, "s3://weights/x")
    place.write("rank-0.safetensors", [b"other" * 3])
    with pytest.raises((IntegrityError, UnavailableError)):
        take_files("s3://weights/x", tmp_path / "to")
    assert not (tmp_path / "to" / "rank-0.safetensors").exists()
    place.remove(PARCEL)
    with pytest.raises(NotFoundError, match=PARCEL):
        take_files("s3://weights/x", tmp_path / "to")


def test_what_s3_refuses_is_one_sentence(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = written(tmp_path / "from")
    with pytest.raises(NotFoundError, match="bucket does not exist"):
        put_files(files, "c" * 64, "s3://absent/x")
    with pytest.raises(NotFoundError):
        take_files("s3://absent/x", tmp_path / "to")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    with pytest.raises(UnavailableError, match="AWS_ENDPOINT_URL"):
        take_files("s3://weights/x", tmp_path / "to")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3)
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    with pytest.raises(BlockedError, match="AWS_ACCESS_KEY_ID"):
        put_files(files, "c" * 64, "s3://weights/x")
