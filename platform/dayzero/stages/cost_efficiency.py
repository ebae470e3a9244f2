"""What kernels and links reach of their peaks, until a platform is probed: one table, each figure with its source."""

from collections.abc import Mapping

from dayzero.domain.costs import Efficiencies, Efficiency

_JUDGEMENT = "no public measurement was at hand: a judgement, with a wide interval"

ASSUMED: Efficiencies = {
    "gemm": Efficiency(0.45, 0.65, 0.85, _JUDGEMENT),
    "experts": Efficiency(0.30, 0.50, 0.75, _JUDGEMENT),
    "attention": Efficiency(0.30, 0.50, 0.75, _JUDGEMENT),
    "recurrent": Efficiency(0.10, 0.25, 0.50, _JUDGEMENT),
    "stream": Efficiency(0.55, 0.75, 0.92, _JUDGEMENT),
    "expert_stream": Efficiency(0.40, 0.65, 0.90, _JUDGEMENT),
    "cache_stream": Efficiency(0.40, 0.65, 0.90, _JUDGEMENT),
    "link": Efficiency(0.45, 0.70, 0.90, _JUDGEMENT),
    "overlap": Efficiency(0.0, 0.2, 0.6, _JUDGEMENT),
    "gradient_overlap": Efficiency(0.3, 0.7, 0.95, _JUDGEMENT),
    "kernel_s": Efficiency(6e-6, 3e-6, 1.5e-6, _JUDGEMENT),
    "collective_s": Efficiency(20e-6, 8e-6, 4e-6, _JUDGEMENT),
    "step_s": Efficiency(4e-3, 1e-3, 0.0, _JUDGEMENT),
}
"""Shares of peaks and fixed costs that nobody measured on the platform at hand."""


def figures_of(efficiencies: Efficiencies, bound: str = "likely") -> Mapping[str, float]:
    """The figures of one bound: worst, likely or best."""
    return {name: getattr(efficiency, bound) for name, efficiency in efficiencies.items()}


def grade_of(efficiencies: Efficiencies, name: str) -> str:
    """Whether that figure was measured or assumed."""
    return efficiencies[name].grade if name in efficiencies else "assumed"
