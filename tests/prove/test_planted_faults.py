"""The matrix of planted faults, and sound runs of the same models, into docs/proofs and docs/planted-faults.md."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import fault_models
import planted_faults
import planted_table
import proofs

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(3 * 3600)]
SEEDS = (0, 1, 2, 3, 4)
MODULES_NAMED = 0.9
TARGETS = ("eager", "sdpa", "compiled")


def test_every_fault_is_found_and_nothing_else() -> None:
    kinds, faults, dtypes = tuple(fault_models.ARCHITECTURES), tuple(planted_faults.FAULTS), planted_faults.DTYPES
    with TemporaryDirectory() as name:
        folder = Path(name)
        cells = list(planted_faults.matrix(kinds, faults, dtypes, 0, folder))
        runs = list(planted_faults.clean(kinds, dtypes, SEEDS, TARGETS, folder))
    counts = planted_faults.summary(cells, runs)
    figures = planted_faults.figures(cells, runs, SEEDS)
    proofs.write_series(planted_faults.PROOF, "dayzero.proof.planted_faults/1", "cpu", figures)
    planted_table.write()
    assert counts["false_alarms"] == 0
    assert counts["detected"] == counts["cells"] == counts["effective"]
    assert counts["layer_named"] == counts["cells"]
    assert counts["module_named"] >= MODULES_NAMED * counts["cells"]
