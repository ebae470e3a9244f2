"""A package that lies, is broken, or means harm: one clear sentence, and nothing of it runs."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wheels
from dayzero.adapters.packages import archive
from dayzero.adapters.packages.foreign import python_tree, yaml_table
from dayzero.adapters.packages.index import Requirement, parse_requirement
from dayzero.adapters.packages.read import read_wheel
from dayzero.app import taxonomy
from dayzero.errors import BadInputError

TAXONOMY = taxonomy()
TABLE = "torch_npu/csrc/aten/npu_native_functions_by_codegen.yaml"


def not_a_zip(path: Path) -> None:
    path.write_bytes(b"PK\x03\x04" + b"\0" * 100)


def truncated(path: Path) -> None:
    whole = wheels.torch_npu(path.parent).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(TABLE, b"a" * (archive.MAX_MEMBER_BYTES + 1))
        file.writestr("t-1.dist-info/METADATA", "Name: torch-npu\nVersion: 1\n")


def lying_size(path: Path) -> None:
    """The directory says that the table has 10 bytes; it has more."""
    whole = bytearray(wheels.torch_npu(path.parent).read_bytes())
    with zipfile.ZipFile(wheels.torch_npu(path.parent)) as file:
        size = file.getinfo(TABLE).file_size
    at = whole.rindex(size.to_bytes(4, "little"))
    whole[at : at + 4] = (10).to_bytes(4, "little")
    path.write_bytes(whole)


def flipped_bit(path: Path) -> None:
    whole = bytearray(wheels.torch_npu(path.parent).read_bytes())
    whole[200] ^= 1
    path.write_bytes(whole)


def climbing(path: Path) -> None:
    wheels.wheel(path.parent, "x", "1", {"../../etc/cron.d/x": "x"}).rename(path)


def twice(path: Path) -> None:
    with zipfile.ZipFile(wheels.torch_npu(path.parent), "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr(TABLE, "supported: []")
    (path.parent / "torch_npu-2.14.0-py3-none-any.whl").rename(path)


def odd_compression(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as file:
        file.writestr(TABLE, "supported: [mm]")
        file.writestr("t-1.dist-info/METADATA", "Name: torch-npu\nVersion: 1\n", zipfile.ZIP_STORED)


def no_metadata(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(TABLE, "supported: [mm]")


def strange(path: Path) -> None:
    wheels.wheel(path.parent, "numpy", "2", {"numpy/__init__.py": ""}).rename(path)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (not_a_zip, "is not a wheel"),
        (truncated, "is not a wheel"),
        (bomb, "more than .* are not read"),
        (lying_size, "is broken|is not as large"),
        (flipped_bit, "is broken|is not YAML|is not UTF-8|is not a wheel"),
        (climbing, "climbs out"),
        (twice, "twice"),
        (odd_compression, "packed by a method"),
        (no_metadata, "0 METADATA files"),
        (strange, "holds no table that dayzero can read.*torch-npu, flag-gems, vllm"),
    ],
)
def test_a_hostile_wheel_is_refused(tmp_path: Path, make: Callable[[Path], None], complaint: str) -> None:
    path = tmp_path / "hostile-1-py3-none-any.whl"
    make(path)
    with pytest.raises(BadInputError, match=complaint):
        read_wheel(path, TAXONOMY, None)


def test_a_wheel_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"nowhere\.whl cannot be read"):
        read_wheel(tmp_path / "nowhere.whl", TAXONOMY, None)


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ("supported: {", "is not YAML"),
        ("- mm", "is not a mapping"),
        ("supported: mm", "supported is not a list"),
        ("supported: [1]", "entry 1 of supported names no function"),
        ("supported: [mm, {impl_ns: op_api}]", "entry 2 of supported names no function"),
        ("a: &x [1]\nb: [*x, *x]", "aliases"),
        ("supported: " + "[" * 40 + "]" * 40, "nested more than"),
        ("supported: [!!python/object/apply:os.system [echo]]", "is not YAML"),
    ],
)
def test_a_hostile_table_is_refused(tmp_path: Path, table: str, complaint: str) -> None:
    with pytest.raises(BadInputError, match=complaint):
        read_wheel(wheels.torch_npu(tmp_path, table=table), TAXONOMY, None)


def test_python_that_cannot_be_read_is_refused() -> None:
    for text in ("def", "\0", "(" * 5000, "x = " + "-" * 200_000 + "1"):
        with pytest.raises(BadInputError, match="m is not Python"):
            python_tree(text, "m")


@pytest.mark.parametrize(
    "text", ["", "-r requirements.txt", "--index-url=x", "a==", "a==1;rm", "a>=1", "a[b]==1", "../x", "a @ b", "ä"]
)
def test_only_a_name_and_a_version_reach_pip(text: str) -> None:
    with pytest.raises(BadInputError, match="names no package"):
        parse_requirement(text)


def test_names_and_versions() -> None:
    assert parse_requirement("torch_npu==2.14.0") == Requirement("torch-npu", "2.14.0")
    assert parse_requirement(" vllm ") == Requirement("vllm", None)
    assert str(Requirement("a", "1.0+cpu")) == "a==1.0+cpu"


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=400))
def test_any_text_is_a_table_or_refused(text: str) -> None:
    for parse in (yaml_table, python_tree):
        try:
            parse(text, "it")
        except BadInputError as error:
            assert error.message.startswith("it ")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_change_of_a_wheel_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    whole = bytearray(wheels.torch_npu(tmp_path).read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "changed.whl"
    path.write_bytes(whole)
    try:
        read_wheel(path, TAXONOMY, None)
    except BadInputError as error:
        assert "changed.whl" in error.message or "npu_native" in error.message or "holds no table" in error.message
