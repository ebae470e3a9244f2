"""What the end-to-end suites share."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@pytest.fixture(scope="session")
def small_model() -> Iterator[Path]:
    """A small dense model, made once a session."""
    with TemporaryDirectory(prefix="dayzero-model-") as name:
        made = Path(name) / "llama-tiny"
        # In a process of its own: making models takes this one off line.
        subprocess.run([sys.executable, "-m", "dayzero.demo_models.make", "llama-tiny", str(made)], check=True, timeout=240)
        yield made
