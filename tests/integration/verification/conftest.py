"""One runner and the tiny models for all tests of what runs observe: its children need not import the libraries anew."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from dayzero.adapters.runners.isolated import SubprocessRunner
from dayzero.demo_models.make import make


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The tiny models by their kind; nobody writes to them."""
    folder = tmp_path_factory.mktemp("models")
    return {kind: make(kind, folder / kind) for kind in ("llama-tiny", "deepseek-tiny")}


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SubprocessRunner]:
    """The isolated runner on the host."""
    kept = SubprocessRunner(tmp_path_factory.mktemp("work"))
    yield kept
    kept.close()
