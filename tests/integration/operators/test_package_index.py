"""Wheels by name and version, through the real pip, from an index of files that we wrote: no network."""

import functools
from pathlib import Path

import pytest

import wheels
from dayzero.adapters.packages.index import fetch_wheel, parse_requirement
from dayzero.errors import DependencyError, IntegrityError, NotFoundError

publish = functools.partial(wheels.publish, package="torch-npu")


def test_the_newest_or_the_one_that_is_named(index: Path, tmp_path: Path) -> None:
    for version in ("2.13.0", "2.14.0"):
        publish(index, wheels.torch_npu(tmp_path, version))
    cache = tmp_path / "cache"
    newest = fetch_wheel(parse_requirement("torch-npu"), cache)
    named = fetch_wheel(parse_requirement("torch_npu==2.13.0"), cache)
    assert "2.14.0" in newest.name and "2.13.0" in named.name
    assert newest.read_bytes() == wheels.torch_npu(tmp_path, "2.14.0").read_bytes()
    (index / "torch-npu" / "index.html").unlink()
    assert fetch_wheel(parse_requirement("torch-npu==2.13.0"), cache) == named, "what is kept needs no index"
    assert not list(cache.rglob("partial-*"))


def test_bytes_that_differ_from_the_index_are_refused(index: Path, tmp_path: Path) -> None:
    publish(index, wheels.torch_npu(tmp_path), "0" * 64)
    with pytest.raises(IntegrityError, match="are others than the index states"):
        fetch_wheel(parse_requirement("torch-npu==2.14.0"), tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("*.whl"))


def test_kept_bytes_are_checked_again(index: Path, tmp_path: Path) -> None:
    publish(index, wheels.torch_npu(tmp_path))
    kept = fetch_wheel(parse_requirement("torch-npu==2.14.0"), tmp_path / "cache")
    kept.write_bytes(kept.read_bytes() + b"x")
    with pytest.raises(IntegrityError, match="removed"):
        fetch_wheel(parse_requirement("torch-npu==2.14.0"), tmp_path / "cache")
    assert (
        fetch_wheel(parse_requirement("torch-npu==2.14.0"), tmp_path / "cache").read_bytes()
        == wheels.torch_npu(tmp_path).read_bytes()
    )


def test_what_is_published_as_source_only_is_never_built(index: Path, tmp_path: Path) -> None:
    source = tmp_path / "torch_npu-2.14.0.tar.gz"
    source.write_bytes(b"setup.py would run here")
    publish(index, source)
    with pytest.raises(NotFoundError, match=r"no wheel of torch-npu.*source only"):
        fetch_wheel(parse_requirement("torch-npu==2.14.0"), tmp_path / "cache")


def test_without_pip_the_remedy_says_so(tmp_path: Path) -> None:
    with pytest.raises(DependencyError, match="Install pip"):
        fetch_wheel(parse_requirement("torch-npu"), tmp_path / "cache", python=str(tmp_path / "no-python"))
