"""The shipped Dockerfiles and Compose file name only what there is."""

import re
from pathlib import Path

import pytest
import yaml

from dayzero.settings import Settings

ROOT = Path(__file__).parents[3]
DOCKERFILES = sorted((ROOT / "docker").glob("*.Dockerfile"))


def instructions(path: Path) -> list[str]:
    joined = path.read_text().replace("\\\n", " ")
    return [line.strip() for line in joined.splitlines() if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_bases_are_arguments_and_copied_files_exist(path: Path) -> None:
    lines = instructions(path)
    assert lines[0].startswith("ARG BASE=")
    assert {line.split()[1] for line in lines if line.startswith("FROM")} == {"${BASE}"}
    for line in lines:
        if line.startswith("COPY") and "--from" not in line:
            for source in line.split()[1:-1]:
                assert (ROOT / source).exists(), source
    assert not any(line.startswith("USER root") for line in lines)
    assert any(line == "USER dayzero" for line in lines)


def test_every_setting_that_they_name_exists() -> None:
    known = {f"DAYZERO_{name.upper()}" for name in Settings.model_fields}
    compose = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())
    for service in compose["services"].values():
        named = {name for name in service.get("environment", {}) if name.startswith("DAYZERO_")}
        assert named <= known
    for path in DOCKERFILES:
        set_there = {name for line in instructions(path) if line.startswith("ENV") for name in re.findall(r"(\w+)=", line)}
        assert {name for name in set_there if name.startswith("DAYZERO_")} <= known


def test_the_worker_is_kept_from_the_database() -> None:
    compose = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())
    worker, control, postgres = (compose["services"][name] for name in ("worker", "control", "postgres"))
    assert not set(worker["networks"]) & set(postgres["networks"])
    assert set(control["networks"]) & set(worker["networks"])
    assert not any("DATABASE" in name for name in worker["environment"])
    assert all(port.startswith("127.0.0.1:") for port in control["ports"])
    for service in (worker, control):
        assert (ROOT / service["build"]["dockerfile"]).is_file()
