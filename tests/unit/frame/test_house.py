"""The traps of the house stay shut."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TORCH_FREE = (
    "dayzero.app",
    "dayzero.cli.main",
    "dayzero.web.door",
    "dayzero_flows",
    "dayzero.steps.pipeline",
)


def test_source_roots_have_one_child_each() -> None:
    for root, child in (("platform", "dayzero"), ("flows", "dayzero_flows")):
        found = {path.name for path in (ROOT / root).iterdir() if path.name != "__pycache__"}
        assert found == {child}


def test_platform_stays_importable_from_the_standard_library() -> None:
    result = subprocess.run(
        [sys.executable, "-c", "import platform; print(platform.python_version())"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert result.stdout.strip() == ".".join(map(str, sys.version_info[:3]))


def test_the_docker_sdk_is_not_the_folder_of_that_name() -> None:
    code = "import docker; assert docker.__file__, 'the folder docker/ hides the SDK'; import docker.errors"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize("module", TORCH_FREE)
def test_the_control_plane_imports_no_torch(module: str) -> None:
    code = (
        "import sys, importlib; importlib.import_module(sys.argv[1]); "
        "heavy = {'torch', 'transformers', 'numpy', 'safetensors'} & set(sys.modules); assert not heavy, heavy"
    )
    result = subprocess.run([sys.executable, "-c", code, module], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_only_the_worker_extra_needs_torch() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    base = " ".join(project["dependencies"])
    assert "torch" not in base and "transformers" not in base
    assert any(line.startswith("torch") for line in project["optional-dependencies"]["worker"])


def test_every_dependency_is_pinned() -> None:
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in (ROOT / "constraints.txt").read_text().split()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["worker"], *project["optional-dependencies"]["dev"]]
    names = {line.split(">=")[0].split("[")[0].strip().lower() for line in wanted}
    assert names <= pinned, names - pinned
