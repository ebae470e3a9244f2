"""`bridge` in the database: what is bridged for one model is there for the next, and in a command of its own."""

import tempfile
from pathlib import Path

import pytest

from dayzero import app
from dayzero.demo_models.make import make
from dayzero.domain.operators import CoverageKind
from dayzero.domain.verdict import Grade, Verdict
from dayzero.settings import Settings
from dayzero.steps import prestaging

pytestmark = [pytest.mark.torch, pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(1200)]

ATTENTION = "aten.scaled_dot_product_attention.default"


def test_the_next_model_already_has_the_bridge() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o711)
        settings = Settings(data_dir=root / "data")
        mixture, dense = make("deepseek-tiny", root / "deepseek-tiny"), make("llama-tiny", root / "llama-tiny")
        done = app.bridge_here(settings, str(mixture), "sim-npu").bridged
        verdicts = {bridge.operator: bridge.verdict for bridge in done.bridges}
        assert verdicts == {
            "aten._grouped_mm.default": Verdict.PASS, ATTENTION: Verdict.PASS, "aten.topk.default": Verdict.NOT_RUN,
        }  # fmt: skip
        assert [gap.operator for gap in done.coverage.gaps] == ["aten.topk.default"]
        assert "torch has no decomposition of it" in done.coverage.gaps[0].why
        work = app.local_work(settings, str(dense), "sim-npu")
        app.tell_manifest(work.bench.ledger, settings, prestaging.subject_of(work.bench, work.lease).profile)
        assert [gap.operator for gap in prestaging.coverage(work.bench, work.lease).noun.gaps] == [ATTENTION]
        app.tell(settings, work)
        report = prestaging.coverage(work.bench, work.lease).noun
        assert not report.gaps
        row = next(row for row in report.operators if row.operator == ATTENTION)
        assert (row.kind, row.grade) == (CoverageKind.DECOMPOSED, Grade.MEASURED)
