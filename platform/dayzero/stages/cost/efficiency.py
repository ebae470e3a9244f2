"""What kernels and links reach of their peaks, until a platform is probed: one table, each figure with its source."""

from collections.abc import Mapping

from dayzero.domain.costs import Efficiencies, Efficiency

_FITTED = (
    "fitted to the predictions of aiconfigurator 0.12 (measured kernels of TensorRT-LLM on H200 and B200) for Llama-3.1-8B, "
    "Qwen3-8B, Qwen3-32B, Qwen3-32B-FP8 and Qwen3-30B-A3B, and taken for every platform; tests/bench/fit_efficiencies.py"
)
_JUDGEMENT = "no public measurement was at hand: a judgement, with a wide interval"

ASSUMED: Efficiencies = {
    "gemm": Efficiency(0.45, 0.65, 0.85, _FITTED),
    "experts": Efficiency(0.12, 0.24, 0.50, _FITTED),
    "attention": Efficiency(0.15, 0.30, 0.60, _FITTED),
    "recurrent": Efficiency(0.05, 0.15, 0.40, _JUDGEMENT),
    "stream": Efficiency(0.55, 0.75, 0.92, _FITTED),
    "expert_stream": Efficiency(0.40, 0.65, 0.90, _FITTED),
    "cache_stream": Efficiency(0.55, 0.90, 0.95, _FITTED),
    "link": Efficiency(0.20, 0.30, 0.60, _FITTED),
    "wide_link": Efficiency(0.10, 0.20, 0.60, _FITTED),
    "imbalance": Efficiency(2.5, 1.6, 1.0, _FITTED),
    "overlap": Efficiency(0.0, 0.2, 0.6, _JUDGEMENT),
    "gradient_overlap": Efficiency(0.3, 0.7, 0.95, _JUDGEMENT),
    "kernel_s": Efficiency(5e-6, 2e-6, 1e-6, _FITTED),
    "collective_s": Efficiency(15e-6, 6e-6, 3e-6, _FITTED),
    "wide_collective_s": Efficiency(500e-6, 230e-6, 50e-6, _FITTED),
    "step_s": Efficiency(2e-3, 0.2e-3, 0.0, _FITTED),
}
"""Shares of peaks and fixed costs that nobody measured on the platform at hand."""


def figures_of(efficiencies: Efficiencies, bound: str = "likely") -> Mapping[str, float]:
    """The figures of one bound: worst, likely or best."""
    return {name: getattr(efficiency, bound) for name, efficiency in efficiencies.items()}
