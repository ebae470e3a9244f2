"""What the end-to-end suites share."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from dayzero.demo_models.make import make


@pytest.fixture(scope="session")
def small_model() -> Iterator[Path]:
    """A small dense model, made once a session."""
    with TemporaryDirectory(prefix="dayzero-model-") as name:
        yield make("llama-tiny", Path(name) / "llama-tiny")
