"""Where an observation took a model's weights from."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WeightSource:
    """Whether layers were streamed from the checkpoint's files or held in memory, and why.

    Sizes are those of the weights in the native dtype; `read_bytes` what was read of the files' tensors, `reads` how often a
    layer was read, in `read_s`. `limit_bytes` is the run's memory limit, where one is known. Of `experts` in mixtures those
    were read that tokens reached.
    """

    streamed: bool
    why: str
    total_bytes: int = 0
    largest_layer_bytes: int = 0
    checkpoint_bytes: int = 0
    read_bytes: int = 0
    reads: int = 0
    limit_bytes: int | None = None
    experts_read: int = 0
    experts: int = 0
    read_s: float = 0.0
