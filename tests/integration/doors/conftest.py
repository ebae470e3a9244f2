"""One tiny model for every test of the commands."""

import os
import shutil
from pathlib import Path

import pytest

from dayzero.demo_models.make import make


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dense model of two layers, as a folder."""
    return make("llama-tiny", tmp_path_factory.mktemp("tiny") / "llama-tiny")


@pytest.fixture
def served(tiny: Path, tmp_path: Path) -> Path:
    """A folder of models that a hub can serve, with the tiny one as acme/tiny."""
    folder = tmp_path / "hub" / "models"
    shutil.copytree(tiny, folder / "acme" / "tiny", copy_function=os.link)
    return folder
