"""Fits the assumed efficiencies to a peer's measured kernels, on models that no comparison is made with.

PYTHONPATH=tests python tests/bench/fit_efficiencies.py ROWS.jsonl

ROWS.jsonl holds what `peer_aiconfigurator.py estimate` prints for the models of FITTED.

Coordinate descent on the mean absolute logarithm of our throughput over the peer's, each point counted for at most 1.5 (a
configuration that one of the two planners implements otherwise should not bend all the rest).
"""

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

from peer_estimates import FITTED, compare

from dayzero.stages.cost.efficiency import ASSUMED

NAMES = ("stream", "cache_stream", "expert_stream", "gemm", "experts", "attention", "link", "wide_link", "collective_s",
         "wide_collective_s", "kernel_s", "step_s", "imbalance")  # fmt: skip
BOUNDS = {"stream": (0.1, 0.95), "cache_stream": (0.1, 0.95), "expert_stream": (0.1, 0.95), "gemm": (0.1, 0.9),
          "experts": (0.05, 0.9), "attention": (0.05, 0.9), "link": (0.3, 0.95), "wide_link": (0.2, 0.95),
          "collective_s": (2e-6, 1.0), "kernel_s": (1e-6, 1.0), "imbalance": (1.0, 4.0)}  # fmt: skip
ROUNDS = 4


def loss(rows: list[dict], figures: dict[str, float]) -> float:
    """Mean absolute logarithm of the ratio of throughputs."""
    table = {name: replace(ASSUMED[name], likely=figures[name]) for name in ASSUMED}
    ratios = (math.log(one.ours_tokens_per_s / one.peer_tokens_per_s) for one in compare(rows, table))
    errors = [min(abs(ratio), 1.5) for ratio in ratios]
    return sum(errors) / len(errors)


def fit(rows: list[dict]) -> dict[str, float]:
    """The figures that leave the least error."""
    figures = {name: efficiency.likely for name, efficiency in ASSUMED.items()}
    best, step = loss(rows, figures), 1.5
    print(f"start: {best:.4f} over {len(rows)} rows")
    for round_ in range(ROUNDS):
        for name in NAMES:
            low, high = BOUNDS.get(name, (0.0, 1.0))
            for factor in (step, 1 / step):
                while True:
                    tried = {**figures, name: max(low, min(high, figures[name] * factor))}
                    if tried == figures or (found := loss(rows, tried)) >= best - 1e-5:
                        break
                    best, figures = found, tried
        step = 1 + (step - 1) * 0.55
        print(f"round {round_}: {best:.4f} " + ", ".join(f"{name} {figures[name]:.3g}" for name in NAMES), flush=True)
    return figures


if __name__ == "__main__":
    lines = Path(sys.argv[1]).read_text().splitlines()
    fit([row for row in map(json.loads, lines) if row["model"] in FITTED])
