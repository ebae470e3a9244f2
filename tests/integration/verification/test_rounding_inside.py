"""Operators that round inside, by design of the library, are not accused for it; a real mistake still is."""

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from dayzero.adapters.runners.figures import share_within  # noqa: E402 - after torch is known to be there
from dayzero.adapters.runners.operator_capture import inner_roundings  # noqa: E402
from dayzero.stages.precision.limits import SHARE_WITHIN  # noqa: E402


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_a_logsumexp_of_masked_scores(dtype: str) -> None:
    kind, roundings = getattr(torch, dtype), inner_roundings("aten.logsumexp.default")
    masked = torch.triu(torch.ones(13, 13, dtype=torch.bool), 1)
    for seed in range(50):
        source = torch.Generator().manual_seed(seed)
        scores = (torch.randn(1, 4, 13, 13, generator=source) * (0.2 + seed % 5)).to(kind)
        scores = scores.masked_fill(masked, torch.finfo(kind).min)
        found, exact = scores.logsumexp(-1), scores.double().logsumexp(-1)
        assert share_within(found, exact, roundings) >= SHARE_WITHIN
        assert share_within(found * 1.05, exact, roundings) < SHARE_WITHIN
