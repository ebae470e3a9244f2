"""Where an observation takes its layers from: memory, or the files one by one. Figures in, a choice with its why out."""

from dataclasses import dataclass

from dayzero.errors import BadInputError, BlockedError

ASKED = ("auto", "memory", "stream")
"""What an option may ask for."""
WIDER = 2
"""Bytes of the higher precision for one of the native dtype: float32 for half precision, float64 for float32 (design)."""
WORKING_BYTES = 512 << 20
"""What a run takes beside weights: the compiler and its child processes, hidden states (docs/proofs/layer_streaming.json)."""


@dataclass(frozen=True, slots=True)
class WeightSizes:
    """Bytes of a model's weights in its native dtype: all, those outside of its layers, the largest tensor there, the largest
    layer; `checkpoint_bytes` are those of its files, which quantization makes fewer. `merged`: the library joins tensors of
    the checkpoint into one, so that a layer is there twice while it is read."""

    total_bytes: int
    outside_bytes: int
    largest_outside_bytes: int
    largest_layer_bytes: int
    checkpoint_bytes: int
    merged: bool


@dataclass(frozen=True, slots=True)
class SourceChoice:
    """Whether layers are streamed, and why, in words with the numbers."""

    streamed: bool
    why: str


ROOMY = 12
"""A limit of so many times the checkpoint's files holds the model whatever it is: four times for four bits that become sixteen,
three for a layer of all its weights with its wider copy."""


def roomy(checkpoint_bytes: int, limit_bytes: int, held_bytes: int) -> SourceChoice | None:
    """Memory without a closer look, for a checkpoint that is small against the limit; None where it takes one."""
    if held_bytes + WORKING_BYTES + ROOMY * checkpoint_bytes > limit_bytes:
        return None
    return SourceChoice(False, f"{ROOMY} times the checkpoint's {checkpoint_bytes:,} bytes fit into {limit_bytes:,}")


def held_need_bytes(sizes: WeightSizes, held_bytes: int) -> int:
    """Memory of a run that holds the model: what the process holds already, all weights, and one wider copy at a time."""
    widest = max(sizes.largest_layer_bytes, sizes.largest_outside_bytes)
    return held_bytes + WORKING_BYTES + sizes.total_bytes + WIDER * widest


def streamed_need_bytes(sizes: WeightSizes, held_bytes: int) -> int:
    """Memory of a run that reads one layer after the other: the weights outside of layers, one layer and its wider copy."""
    layer = sizes.largest_layer_bytes * ((2 if sizes.merged else 1) + WIDER)
    return held_bytes + WORKING_BYTES + sizes.outside_bytes + max(layer, WIDER * sizes.largest_outside_bytes)


def choose_source(asked: str, sizes: WeightSizes, limit_bytes: int | None, held_bytes: int) -> SourceChoice:
    """Memory where the model fits into the limit, else streaming; `asked` (auto, memory, stream) decides before the limit does.

    BadInputError: it asks for something else. BlockedError: not even one layer fits, or not the model that was asked for.
    """
    if asked not in ASKED:
        raise BadInputError(f"option layers_from={asked!r} is none of {', '.join(ASKED)}.", remedy="Name one of them.")
    whole, streamed = held_need_bytes(sizes, held_bytes), streamed_need_bytes(sizes, held_bytes)
    if asked != "stream" and (limit_bytes is None or whole <= limit_bytes):
        bound = "no memory limit is known" if limit_bytes is None else f"the limit is {limit_bytes:,}"
        return SourceChoice(False, f"the whole model takes {whole:,} bytes, {bound}")
    if asked == "memory":
        raise BlockedError(
            f"the whole model takes {whole:,} bytes of memory, the limit is {limit_bytes:,}.",
            remedy="Raise the limit, or let the layers be streamed (layers_from=auto).",
        )
    if limit_bytes is not None and streamed > limit_bytes:
        raise BlockedError(
            f"too little memory for even one layer: streaming takes {streamed:,} bytes, the limit is {limit_bytes:,}"
            f" ({held_bytes:,} the process, {WORKING_BYTES:,} to work with, {sizes.outside_bytes:,} what is outside of layers,"
            f" {sizes.largest_layer_bytes:,} the largest layer and {WIDER * sizes.largest_layer_bytes:,} its wider copy).",
            remedy="Raise the run's memory limit.",
        )
    if asked == "stream":
        return SourceChoice(True, f"it was asked for; one layer after the other takes {streamed:,} bytes")
    return SourceChoice(
        True, f"the whole model takes {whole:,} bytes, the limit is {limit_bytes:,}; layer by layer {streamed:,}"
    )
