"""What fingerprints cost beside a forward, and what full dumps of the same tensors cost; ratios of one run."""

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dayzero.demo_models.make import make

torch = pytest.importorskip("torch")
from safetensors.torch import save_file  # noqa: E402 - after importorskip

from dayzero.adapters.runners import loading  # noqa: E402 - after importorskip
from dayzero.adapters.runners.sketching import Sketcher, first_tensor, watch  # noqa: E402 - after importorskip
from dayzero.domain.fingerprints import Point  # noqa: E402 - after importorskip

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(3600)]
ROUNDS = int(os.environ.get("DAYZERO_BENCH_ROUNDS", "5"))
BATCH, TOKENS = 8, 512


class Dumper:
    """Writes every tensor that it is shown, as dumping tools do."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bytes = folder, 0
        self.seen: Any = None
        folder.mkdir(exist_ok=True)

    def show(self, module: str, point: Point, value: Any, part: Any = None, group: Any = None) -> None:
        tensor = first_tensor(value)
        if tensor is not None and tensor is not self.seen:
            self.seen = tensor
            save_file({"t": tensor.contiguous()}, self.folder / f"{module}.{point.value}")
            self.bytes += tensor.nbytes


def timed(model: Any, ids: Any, shower: Callable[[], Any] | None) -> tuple[float, Any]:
    """Seconds of one forward that is looked at, and who looked."""
    looks = None if shower is None else shower()
    handles = [] if looks is None else watch(model, looks)
    began = time.perf_counter()
    with torch.no_grad():
        model(ids, use_cache=False, logits_to_keep=1)
    if isinstance(looks, Sketcher):
        looks.prints(0)
    took = time.perf_counter() - began
    for handle in handles:
        handle.remove()
    return took, looks


def test_fingerprints_beside_a_forward_and_full_dumps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(given) if (given := os.environ.get("DAYZERO_BENCH_MODEL")) else make("smollm2", tmp_path / "model")
    model = loading.load_model(folder, torch.float32)
    layers = len(loading.decoder_layers(model)[1])
    ids = torch.randint(0, 49152, (BATCH, TOKENS), generator=torch.Generator().manual_seed(0))
    ways: dict[str, Callable[[], Any] | None] = {
        "plain": None,
        "fingerprints": lambda: Sketcher(BATCH * TOKENS),
        "dumps": lambda: Dumper(tmp_path / "dump"),
    }
    times: dict[str, list[float]] = {way: [] for way in ways}
    last: dict[str, Any] = {}
    timed(model, ids, None)
    for _ in range(ROUNDS):
        for way, shower in ways.items():
            took, last[way] = timed(model, ids, shower)
            times[way].append(took)
    medians = {way: statistics.median(each) for way, each in times.items()}
    overheads = [one / plain - 1 for one, plain in zip(times["fingerprints"], times["plain"], strict=True)]
    prints = last["fingerprints"].prints(0)
    kept = prints.size_bytes / layers
    paired = statistics.median(overheads)
    with capsys.disabled():
        print(f"\nSmolLM2, {BATCH} × {TOKENS} tokens, float32, medians of {ROUNDS}: {medians}")
        print(f"  fingerprints: {medians['fingerprints'] / medians['plain'] - 1:+.1%}, median of pairs {paired:+.1%}")
        print(f"  dumps: {medians['dumps'] / medians['plain'] - 1:+.0%}")
        print(f"  a layer: {kept:,.0f} bytes of fingerprints, {last['dumps'].bytes / layers:,.0f} of dumps")
        print(f"  {len(prints.prints)} tensors")
    assert kept < 64 << 10
    assert kept * 1000 < last["dumps"].bytes / layers
