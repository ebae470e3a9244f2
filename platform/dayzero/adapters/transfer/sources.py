"""The checkpoint's files as bytes: mapped, read window by window, and let go again."""

import mmap
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from math import prod
from pathlib import Path, PurePosixPath
from types import ModuleType, TracebackType
from typing import Self

from dayzero.domain.shards import ShardTensor
from dayzero.domain.tensors import DTYPE_BITS, TensorHeader
from dayzero.errors import BadInputError, DependencyError
from dayzero.stages.headers.reading import LENGTH_BYTES, header_length, parse_header

WINDOW_BYTES = 16 * 1024 * 1024


class Sources:
    """The checkpoint's files under a folder, mapped once each; a context manager that unmaps them."""

    def __init__(self, model_dir: Path) -> None:
        self._model_dir = model_dir
        self._maps: dict[str, mmap.mmap] = {}
        self._headers: dict[str, dict[str, TensorHeader]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for mapped in self._maps.values():
            # A view may still be held by the frames of an error on its way up; the process then unmaps it.
            with suppress(BufferError):
                mapped.close()

    def windows(self, tensor: ShardTensor) -> Iterator[memoryview | bytearray]:
        """The bytes of a rank's part of a tensor, in order, in windows; BadInputError when the file does not hold it so."""
        header = self._header(tensor)
        if tensor.end == tensor.begin:
            return
        if tensor.rows:
            row_bytes, shape = header.size_bytes // header.shape[0], header.shape[1:]
            for first, last in tensor.rows:
                begin = header.begin + first * row_bytes
                stretch = replace(header, shape=(last - first, *shape), begin=begin, end=begin + (last - first) * row_bytes)
                yield from self._stretch(tensor, stretch)
        else:
            yield from self._stretch(tensor, header)
        for at in range(0, tensor.padding_bytes, WINDOW_BYTES):
            yield bytearray(min(WINDOW_BYTES, tensor.padding_bytes - at))

    def _stretch(self, tensor: ShardTensor, header: TensorHeader) -> Iterator[memoryview | bytearray]:
        pieces = tensor.pieces or ((tensor.start, tensor.stop),)
        if tensor.dim is None:
            yield from self._contiguous(tensor.file, header.begin, header.end)
        elif tensor.dim == 0:
            row_bytes = header.size_bytes // header.shape[0]
            for start, stop in pieces:
                yield from self._contiguous(tensor.file, header.begin + start * row_bytes, header.begin + stop * row_bytes)
        else:
            yield from self._strided(tensor.file, tensor.dim, pieces, header)

    def _header(self, tensor: ShardTensor) -> TensorHeader:
        if tensor.file not in self._headers:
            self._open(tensor.file)
        header = self._headers[tensor.file].get(tensor.name)
        if header is None or header.dtype != tensor.dtype or _local_shape(header, tensor) != tensor.shape:
            found = f"{header.dtype} {list(header.shape)}" if header else "nothing"
            raise BadInputError(
                f"{self._model_dir / tensor.file} holds {found} as tensor {tensor.name}, not what the layout was made from.",
                remedy="Fetch the model again.",
            )
        return header

    def _open(self, file: str) -> None:
        parts = PurePosixPath(file)
        if parts.is_absolute() or ".." in parts.parts:
            raise BadInputError(f"the layout names a source file {file!r} outside of the model's folder.")
        path = self._model_dir / file
        try:
            with path.open("rb") as stream:
                size = path.stat().st_size
                mapped = mmap.mmap(stream.fileno(), size, prot=mmap.PROT_READ) if size else None
        except OSError as error:
            raise BadInputError(f"{path} cannot be read: {error.strerror}.", remedy="Fetch the model again.") from error
        length = header_length(mapped[:LENGTH_BYTES] if mapped else b"", file, size)
        assert mapped is not None
        self._maps[file] = mapped
        mapped.madvise(mmap.MADV_SEQUENTIAL)
        tensors = parse_header(file, size, mapped[LENGTH_BYTES : LENGTH_BYTES + length])
        self._headers[file] = {header.name: header for header in tensors}

    def _contiguous(self, file: str, begin: int, end: int) -> Iterator[memoryview]:
        mapped = self._maps[file]
        with memoryview(mapped) as view:
            for at in range(begin, end, WINDOW_BYTES):
                stop = min(at + WINDOW_BYTES, end)
                with view[at:stop] as window:
                    yield window
                _let_go(mapped, at, stop)

    def _strided(self, file: str, dim: int, pieces: tuple[tuple[int, int], ...], header: TensorHeader) -> Iterator[memoryview]:
        """Slices along an inner dimension: blocks of whole outer rows are copied into one reused buffer."""
        numpy = _numpy()
        outer = prod(header.shape[:dim])
        row_bytes = header.size_bytes // outer
        unit_bits = prod(header.shape[dim + 1 :]) * DTYPE_BITS[header.dtype]
        spans = [(start * unit_bits // 8, stop * unit_bits // 8) for start, stop in pieces]
        rows = max(1, WINDOW_BYTES // row_bytes)
        buffer = numpy.empty((min(rows, outer), sum(last - first for first, last in spans)), dtype=numpy.uint8)
        mapped = self._maps[file]
        for row in range(0, outer, rows):
            count = min(rows, outer - row)
            begin = header.begin + row * row_bytes
            source = numpy.frombuffer(mapped, numpy.uint8, count * row_bytes, begin).reshape(count, row_bytes)
            at = 0
            for first, last in spans:
                numpy.copyto(buffer[:count, at : at + last - first], source[:, first:last])
                at += last - first
            del source
            _let_go(mapped, begin, begin + count * row_bytes)
            yield memoryview(buffer[:count].reshape(-1))


def _local_shape(header: TensorHeader, tensor: ShardTensor) -> tuple[int, ...] | None:
    """The shape that the layout's part of such a tensor has; None when the tensor does not reach so far."""
    shape = header.shape
    if tensor.rows:
        if not shape or not _inside(tensor.rows, shape[0]):
            return None
        shape = (sum(last - first for first, last in tensor.rows), *shape[1:])
    if tensor.dim is None:
        return shape
    pieces = tensor.pieces or ((tensor.start, tensor.stop),)
    if tensor.dim >= len(shape) or not _inside(pieces, header.shape[tensor.dim]):
        return None
    taken = sum(stop - start for start, stop in pieces) + _padding_rows(header, tensor)
    return (*shape[: tensor.dim], taken, *shape[tensor.dim + 1 :])


def _inside(ranges: tuple[tuple[int, int], ...], size: int) -> bool:
    return all(0 <= first <= last <= size for first, last in ranges)


def _padding_rows(header: TensorHeader, tensor: ShardTensor) -> int:
    row_bits = prod(header.shape[1:]) * DTYPE_BITS[header.dtype]
    return tensor.padding_bytes * 8 // row_bits if tensor.dim == 0 and row_bits else 0


def _let_go(mapped: mmap.mmap, begin: int, end: int) -> None:
    """Drop the pages from this process (they stay in the page cache), so that memory stays bounded by the window."""
    first = begin - begin % mmap.PAGESIZE
    mapped.madvise(mmap.MADV_DONTNEED, first, end - first)


def _numpy() -> ModuleType:
    try:
        import numpy
    except ImportError as error:
        raise DependencyError(
            "slices of weights need numpy.", remedy="Install the extra: pip install 'dayzero[worker]'."
        ) from error
    return numpy
