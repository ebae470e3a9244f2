"""Locks in a folder: which platform has which, and what is refused."""

from pathlib import Path

import pytest

from dayzero.adapters.stacks.folder import keep_lock, recipes_in
from dayzero.domain.stacks import Pin, StackRecipe
from dayzero.errors import BadInputError

MINE = StackRecipe("mine", (Pin("transformers", "5.20.0"),))


def test_a_platforms_lock_takes_the_place_of_one_for_all(tmp_path: Path) -> None:
    special = StackRecipe("mine", (Pin("transformers", "5.21.0"),))
    other = StackRecipe("other", (Pin("tokenizers", "0.22.2"),))
    for platform, recipe in ((None, MINE), ("sim-npu", special), (None, other)):
        keep_lock(tmp_path, platform, recipe)
    assert [(one.name, one.library_version) for one in recipes_in(tmp_path, "sim-npu")] == [
        ("installed", None), ("mine", "5.21.0"), ("other", None),
    ]  # fmt: skip
    assert [one.library_version for one in recipes_in(tmp_path, "cpu") if one.name == "mine"] == ["5.20.0"]
    assert [one.name for one in recipes_in(tmp_path / "absent", "cpu")] == ["installed"]


def test_a_lock_is_replaced_only_when_that_is_asked_for(tmp_path: Path) -> None:
    path = keep_lock(tmp_path, None, MINE)
    before = path.read_bytes()
    with pytest.raises(BadInputError, match="there is a stack mine already"):
        keep_lock(tmp_path, None, StackRecipe("mine", (Pin("a", "1"),)))
    assert path.read_bytes() == before
    keep_lock(tmp_path, None, StackRecipe("mine", (Pin("a", "1"),)), replace=True)
    assert recipes_in(tmp_path, "cpu")[1].pins == (Pin("a", "1"),)


def test_files_that_are_no_locks_are_named(tmp_path: Path) -> None:
    (tmp_path / "broken.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInputError, match=r"broken\.txt is not UTF-8"):
        recipes_in(tmp_path, "cpu")
    (tmp_path / "broken.txt").rename(tmp_path / "installed.txt")
    with pytest.raises(BadInputError, match="is what a worker has"):
        recipes_in(tmp_path, "cpu")
    with pytest.raises(BadInputError, match="is what a worker has"):
        keep_lock(tmp_path, None, StackRecipe("installed", MINE.pins))
