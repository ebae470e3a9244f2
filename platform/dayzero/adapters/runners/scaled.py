"""Weights in 8-bit floats are loaded with their scales or not at all: the modelling library takes them without a word."""

from pathlib import Path
from typing import Any

from dayzero.domain.tensors import TensorHeader
from dayzero.errors import BadInputError
from dayzero.stages.headers.reading import LENGTH_BYTES, header_length, parse_header
from dayzero.stages.layout.scales import eight_bit_floats, without_scale


def require_scales(folder: Path, config: Any) -> None:
    """BadInputError where the folder's safetensors hold 8-bit floats without a scale, or with one that nobody told the library
    to multiply by."""
    tensors = [tensor for path in sorted(folder.glob("*.safetensors")) for tensor in _headers(path)]
    eights = eight_bit_floats(tensors)
    bare = without_scale(tensors)
    if bare:
        raise BadInputError(
            f"{len(bare)} of {len(eights)} tensors in 8-bit floats have no scale beside them, the first {bare[0]}: their values"
            " cannot be known.",
            remedy="Fetch the model again; where its publisher left the scales out, take another release.",
        )
    if eights and not getattr(config, "quantization_config", None):
        raise BadInputError(
            f"{eights[0]} is in 8-bit floats and config.json states no quantization: the modelling library would leave out its"
            " scale.",
            remedy="Take a release whose configuration states it, or convert the weights with dayzero convert --to bfloat16.",
        )


def _headers(path: Path) -> tuple[TensorHeader, ...]:
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = header_length(stream.read(LENGTH_BYTES), path.name, size)
        return parse_header(path.name, size, stream.read(length))
