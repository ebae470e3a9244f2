"""What a rank's shard files hold, mapped: a tensor's bytes are read when its values are asked for."""

import mmap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from dayzero.domain.shards import ShardFile, ShardManifest
from dayzero.domain.tensors import TensorHeader
from dayzero.errors import BadInputError
from dayzero.stages.headers.reading import LENGTH_BYTES, header_length, parse_header

TORCH_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "F8_E8M0": torch.float8_e8m0fnu,
}  # fmt: skip
SCALE = "_scale_inv"
"""What the name of a tensor's scales has behind the tensor's own (DeepSeek-V3)."""

Stretch = tuple[mmap.mmap, int, int]
"""Bytes of a mapped file."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor in a mapped file, with its scales where it is in FP8 blocks of `block`."""

    mapped: torch.Tensor
    stretch: Stretch
    scales: "Stored | None" = None
    block: tuple[int, int] = (1, 1)

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape in the file."""
        return tuple(self.mapped.shape)

    def values(self, dtype: torch.dtype) -> torch.Tensor:
        """A copy of the values in the dtype, read now; blocks times their scales in float32, rounded once."""
        if self.scales is None:
            return self.mapped.to(dtype, copy=True)
        rows, columns = self.shape[-2:]
        wide = self.scales.mapped.to(torch.float32)
        wide = wide.repeat_interleave(self.block[0], dim=-2)[..., :rows, :]
        wide = wide.repeat_interleave(self.block[1], dim=-1)[..., :columns]
        return (self.mapped.to(torch.float32) * wide).to(dtype)

    def stretches(self) -> tuple[Stretch, ...]:
        """All bytes that its values are made of."""
        return (self.stretch,) if self.scales is None else (self.stretch, *self.scales.stretches())


@dataclass(frozen=True, slots=True)
class Source:
    """Where a parameter's values come from: its shape, the bytes behind them, and how to make them."""

    shape: tuple[int, ...]
    parts: tuple[Stored, ...]
    make: Callable[[torch.dtype], torch.Tensor]

    def will_need(self) -> None:
        """Ask the kernel to read the bytes ahead, without waiting."""
        self._advise(mmap.MADV_WILLNEED)

    def let_go(self) -> None:
        """Drop the pages from this process; they stay in the page cache, and come back when they are asked for."""
        self._advise(mmap.MADV_DONTNEED)

    def _advise(self, advice: int) -> None:
        for mapped, begin, end in (stretch for part in self.parts for stretch in part.stretches()):
            first = begin - begin % mmap.PAGESIZE
            if end > first:
                mapped.madvise(advice, first, end - first)


def source_of(stored: Stored) -> Source:
    """One tensor as it is."""
    return Source(stored.shape, (stored,), stored.values)


def rank_tensors(shards: Path, manifest: ShardManifest, rank: int, block: tuple[int, int]) -> dict[str, Stored]:
    """The tensors in the rank's files, which must be those that the manifest names, in its shapes; nothing is read yet.

    Scales of FP8 blocks go to their tensors. BadInputError: another file than the manifest says, or another quantization.
    """
    held: dict[str, Stored] = {}
    for file in manifest.files:
        if file.rank == rank:
            held |= _mapped(shards, file)
    return _joined(held, block)


def _mapped(shards: Path, file: ShardFile) -> dict[str, Stored]:
    path = shards / file.path
    if path.resolve().parent != shards.resolve():
        raise BadInputError(f"shard file {file.path} lies outside its folder.", remedy="Shard the model anew.")
    try:
        with path.open("rb") as stream:
            # A private mapping: torch warns of memory that it may not write to.
            mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
    except (OSError, ValueError) as error:
        raise BadInputError(f"shard file {path} cannot be read: {error}.", remedy="Shard the model anew.") from error
    length = header_length(mapped[:LENGTH_BYTES], file.path, len(mapped))
    found = {row.name: row for row in parse_header(file.path, len(mapped), mapped[LENGTH_BYTES : LENGTH_BYTES + length])}
    for tensor in file.tensors:
        row = found.get(tensor.name)
        if row is None or (row.shape, row.dtype, row.begin) != (tensor.shape, tensor.dtype, tensor.begin):
            raise BadInputError(f"{file.path} does not hold {tensor.name} as its manifest says.", remedy="Shard it anew.")
    return {name: _stored(mapped, row) for name, row in found.items()}


def _stored(mapped: mmap.mmap, row: TensorHeader) -> Stored:
    dtype = TORCH_DTYPES.get(row.dtype)
    if dtype is None:
        raise BadInputError(f"{row.name} has the dtype {row.dtype}, which torch cannot map.", remedy="Convert the model first.")
    if row.size_bytes == 0:
        return Stored(torch.empty(row.shape, dtype=dtype), (mapped, row.begin, row.end))
    flat = torch.frombuffer(mapped, dtype=torch.uint8, count=row.size_bytes, offset=row.begin)
    return Stored(flat.view(dtype).reshape(row.shape), (mapped, row.begin, row.end))


def _joined(held: Mapping[str, Stored], block: tuple[int, int]) -> dict[str, Stored]:
    joined: dict[str, Stored] = {}
    for name, stored in held.items():
        base = held.get(name.removesuffix(SCALE))
        if name.endswith(SCALE) and base is not None and base.mapped.dtype is torch.float8_e4m3fn:
            continue
        scales = held.get(name + SCALE) if stored.mapped.dtype is torch.float8_e4m3fn else None
        if scales is None:
            _require_unpacked(name, stored)
            joined[name] = stored
            continue
        grid = tuple(-(-size // each) for size, each in zip(stored.shape[-2:], block, strict=True))
        if scales.shape != (*stored.shape[:-2], *grid):
            raise BadInputError(
                f"{name}{SCALE} has the shape {list(scales.shape)}; blocks of {block[0]} × {block[1]} need {list(grid)}.",
                remedy="Shard the model anew.",
            )
        joined[name] = Stored(stored.mapped, stored.stretch, scales, block)
    return joined


def _require_unpacked(name: str, stored: Stored) -> None:
    if stored.mapped.element_size() == 1 or "scale" in name:
        raise BadInputError(
            f"{name} is quantized ({stored.mapped.dtype}); ranks compute with unquantized weights and FP8 blocks only.",
            remedy="Convert the checkpoint first: dayzero convert MODEL --to bfloat16 --out DIR.",
        )
