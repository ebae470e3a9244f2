"""Which scale belongs to a tensor in 8-bit floats, by its name. Without it the values are off by about a thousand times, and
nothing else shows it: every byte is a valid number.

Each is what a value is multiplied by, also `weight_scale_inv` (DeepSeek-V3's, named after the quantization that it undoes).
"""

from collections.abc import Collection, Iterable

from dayzero.domain.tensors import TensorHeader
from dayzero.stages.layout.names import Leaf, place_of

SPELLINGS = ("weight_scale_inv", "weight_scale", "scale_weight", "scale")
"""Names beside `weight`: DeepSeek-V3 and its library, compressed-tensors and ModelOpt, ComfyUI and stable-diffusion.cpp,
DeepSeek's own files."""
EIGHT_BIT_FLOATS = ("F8_E4M3", "F8_E5M2")


def scale_of(name: str, names: Collection[str]) -> str | None:
    """The scale of the tensor among the names, or None. A parameter that is not called `weight` (stacked experts) has it
    behind its own name."""
    stem = name.removesuffix("weight")
    spelled = [stem + spelling for spelling in SPELLINGS] if stem != name else []
    return next((one for one in (*spelled, f"{name}_scale_inv", f"{name}_scale") if one in names), None)


def eight_bit_floats(tensors: Iterable[TensorHeader]) -> tuple[str, ...]:
    """Tensors in 8-bit floats that are no scales themselves, in order."""
    return tuple(
        tensor.name
        for tensor in tensors
        if tensor.dtype in EIGHT_BIT_FLOATS and place_of(tensor.name, None).leaf is not Leaf.SCALE
    )


def without_scale(tensors: Iterable[TensorHeader]) -> tuple[str, ...]:
    """Those of them that have no scale."""
    held = tuple(tensors)
    names = {tensor.name for tensor in held}
    return tuple(name for name in eight_bit_floats(held) if scale_of(name, names) is None)
