"""Locks and installed stacks through the real pip, from an index of wheels that we wrote: no network."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import wheels
from dayzero.adapters.stacks.building import install, installed_at, packages_of
from dayzero.adapters.stacks.locking import locked
from dayzero.domain.stacks import Pin, StackRecipe
from dayzero.errors import BadInputError, DependencyError, IntegrityError, NotFoundError


def publish(index: Path, folder: Path, name: str, version: str, *needs: str, sha256: str | None = None) -> None:
    module = name.replace("-", "_")
    path = wheels.wheel(folder, name, version, {f"{module}/__init__.py": f'VERSION = "{version}"\n'}, needs)
    wheels.publish(index, path, sha256, package=name)


def says(packages: Path, module: str) -> str:
    """What a child that finds the stack's packages first imports."""
    command = [sys.executable, "-c", f"import {module}; print({module}.VERSION)"]
    return subprocess.run(command, env={"PYTHONPATH": str(packages)}, capture_output=True, text=True, check=True).stdout.strip()


def test_what_is_locked_is_installed_and_found_first(index: Path, tmp_path: Path) -> None:
    publish(index, tmp_path, "dz-models", "2.0", "dz-tokens>=1,<2", "packaging>=20")
    publish(index, tmp_path, "dz-tokens", "1.5")
    publish(index, tmp_path, "dz-tokens", "2.0")
    recipe = locked("new", ["dz-models"])
    assert [str(pin) for pin in recipe.pins] == ["dz-models==2.0", "dz-tokens==1.5"], "packaging is here, and will do"
    assert all(pin.sha256 for pin in recipe.pins)
    root = tmp_path / "root"
    assert installed_at(recipe, root) is None
    place = install(recipe, root)
    assert (says(packages_of(place), "dz_models"), says(packages_of(place), "dz_tokens")) == ("2.0", "1.5")
    assert installed_at(StackRecipe("another-name", recipe.pins), root) == place
    (index / "dz-models" / "index.html").unlink()
    assert install(recipe, root) == place, "what is installed needs no index"


def test_processes_that_install_at_once_end_with_one_folder(index: Path, tmp_path: Path) -> None:
    publish(index, tmp_path, "dz-models", "2.0")
    recipe = locked("new", ["dz-models==2.0"])
    with ThreadPoolExecutor(3) as pool:
        places = {one.result() for one in [pool.submit(install, recipe, tmp_path / "root") for _ in range(3)]}
    assert places == {tmp_path / "root" / recipe.fingerprint}
    assert [path.name for path in (tmp_path / "root").iterdir()] == [recipe.fingerprint]


def test_bytes_that_differ_from_the_lock_are_not_installed(index: Path, tmp_path: Path) -> None:
    publish(index, tmp_path, "dz-models", "2.0")
    recipe = StackRecipe("new", (Pin("dz-models", "2.0", ("0" * 64,)),))
    with pytest.raises(IntegrityError, match="bytes of stack new"):
        install(recipe, tmp_path / "root")
    assert not list((tmp_path / "root").iterdir())


def test_a_package_that_is_needed_and_missing_is_named(index: Path, tmp_path: Path) -> None:
    publish(index, tmp_path, "dz-models", "2.0", "dz-tokens>=3", 'dz-extras; extra == "all"')
    publish(index, tmp_path, "dz-tokens", "1.5")
    with pytest.raises(DependencyError, match=r"dz-models 2\.0 needs dz-tokens>=3, and none is there"):
        install(StackRecipe("new", (Pin("dz-models", "2.0"),)), tmp_path / "root")
    both = StackRecipe("new", (Pin("dz-models", "2.0"), Pin("dz-tokens", "1.5")))
    with pytest.raises(DependencyError, match=r"needs dz-tokens>=3, and dz-tokens 1\.5 is there"):
        install(both, tmp_path / "root")
    assert not list((tmp_path / "root").iterdir())


def test_what_cannot_be_locked_says_why(index: Path, tmp_path: Path) -> None:
    publish(index, tmp_path, "dz-models", "2.0", "dz-absent")
    with pytest.raises(NotFoundError, match="no wheel of dz-models"):
        locked("new", ["dz-models"])
    with pytest.raises(BadInputError, match="installed here already"):
        locked("new", ["packaging"])
    for hostile in ("--index-url=https://elsewhere", "../../wheel.whl", "x @ https://elsewhere/x.whl", ""):
        with pytest.raises(BadInputError, match="is no requirement"):
            locked("new", [hostile])
