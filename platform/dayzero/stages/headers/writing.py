"""Headers of safetensors files that are written here, and the index over them."""

import json
from collections.abc import Iterable, Mapping
from math import prod

from dayzero.domain.tensors import DTYPE_BITS, TensorHeader
from dayzero.stages.headers.reading import LENGTH_BYTES

Row = tuple[str, str, tuple[int, ...]]
"""Name, safetensors dtype and shape of a tensor."""


def aligned(rows: Iterable[Row]) -> list[Row]:
    """Wide elements first, so that every tensor begins at a multiple of its element's size; by name where that is equal."""
    return sorted(rows, key=lambda row: (-DTYPE_BITS[row[1]], row[0]))


def placed_file(file: str, rows: Iterable[Row], metadata: Mapping[str, str]) -> tuple[bytes, tuple[TensorHeader, ...]]:
    """A file's first bytes (length and header, padded to a multiple of 8) and its tensors with their places, in the order of
    the rows. Sizes must end on a byte."""
    ordered = list(rows)
    document: dict[str, object] = {"__metadata__": dict(metadata)}
    sizes, at = [], 0
    for name, dtype, shape in ordered:
        size = prod(shape) * DTYPE_BITS[dtype] // 8
        document[name] = {"dtype": dtype, "shape": shape, "data_offsets": (at, at + size)}
        sizes.append((at, at + size))
        at += size
    text = json.dumps(document, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = LENGTH_BYTES + len(text)
    tensors = tuple(
        TensorHeader(name, dtype, shape, file, data + begin, data + end)
        for (name, dtype, shape), (begin, end) in zip(ordered, sizes, strict=True)
    )
    return len(text).to_bytes(LENGTH_BYTES, "little") + text, tensors


def index_document(tensors: Iterable[TensorHeader]) -> bytes:
    """model.safetensors.index.json over these tensors."""
    placed = sorted(tensors, key=lambda tensor: tensor.name)
    document = {
        "metadata": {"total_size": sum(tensor.size_bytes for tensor in placed)},
        "weight_map": {tensor.name: tensor.file for tensor in placed},
    }
    return (json.dumps(document, indent=2) + "\n").encode()
