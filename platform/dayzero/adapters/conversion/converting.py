"""A checkpoint folder in another format: every tensor passes once, and the folder is there when all of it is."""

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from math import prod
from pathlib import Path

from dayzero.adapters.conversion.beside import copy_beside
from dayzero.adapters.conversion.folder import whole_folder
from dayzero.adapters.conversion.mapping import MappedFiles, read_index
from dayzero.adapters.conversion.windows import Piece, windows
from dayzero.counting import Counter
from dayzero.disk import write_all, write_whole
from dayzero.domain.conversion import Conversion, ConversionPlan, WeightFormat
from dayzero.domain.tensors import DTYPE_BITS, TensorHeader
from dayzero.errors import BadInputError
from dayzero.ports.hub import Progress
from dayzero.stages.configuration.quantization import SIDE_FILE
from dayzero.stages.conversion.configuring import converted_config, stated_quantization
from dayzero.stages.conversion.planning import plan_conversion
from dayzero.stages.headers.files import WEIGHTS_INDEX_FILE
from dayzero.stages.headers.writing import aligned, index_document, placed_file

THREADS = 2
AHEAD = 3
"""Windows that are worked on or wait to be written."""


def convert_checkpoint(model_dir: Path, target: WeightFormat, out: Path, progress: Progress | None = None) -> ConversionPlan:
    """Write the checkpoint in the target format to `out`, with its configuration changed to match and its tokenizer copied.

    `out` is there whole or not at all. BadInputError: nothing to convert, a quantization that cannot be read, damaged files.
    DependencyError: no room.
    """
    config = _config_of(model_dir)
    with MappedFiles(model_dir) as files:
        index = read_index(files)
        side = model_dir / SIDE_FILE
        stated = stated_quantization(config, side.read_bytes() if side.is_file() else None)
        plan = plan_conversion(index, stated, target)
        counter = Counter(progress, sum(_size(conversions) for _, conversions in plan.files))
        with whole_folder(out, counter.total) as partial:
            placed: list[TensorHeader] = []
            for file, conversions in plan.files:
                placed += _write(files, file, conversions, partial, counter)
            if (model_dir / WEIGHTS_INDEX_FILE).is_file() or len(plan.files) > 1:
                write_whole(partial / WEIGHTS_INDEX_FILE, index_document(placed))
            write_whole(partial / "config.json", converted_config(config, plan))
            copy_beside(model_dir, partial, quantization=False)
    return plan


def _config_of(model_dir: Path) -> bytes:
    try:
        return (model_dir / "config.json").read_bytes()
    except OSError as error:
        raise BadInputError(f"{model_dir} has no config.json that can be read.", remedy="Name a model's folder.") from error


def _size(conversions: tuple[Conversion, ...]) -> int:
    return sum(prod(new.shape) * DTYPE_BITS[new.dtype] // 8 for one in conversions for new in one.outputs)


def _write(
    files: MappedFiles, file: str, conversions: tuple[Conversion, ...], into: Path, counter: Counter
) -> tuple[TensorHeader, ...]:
    """One file: windows are made in threads, and written here in their order."""
    rows = [(new.name, new.dtype, new.shape) for one in conversions for new in one.outputs]
    header, placed = placed_file(file, aligned(rows), {"format": "pt"})
    at = {tensor.name: tensor.begin for tensor in placed}
    path = into / file
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream, ThreadPoolExecutor(THREADS, "convert") as threads:
        descriptor = stream.fileno()
        write_all(descriptor, header, 0)
        os.ftruncate(descriptor, max((tensor.end for tensor in placed), default=len(header)))
        for one, pieces in _made(files, conversions, threads):
            for piece in pieces:
                _put(descriptor, piece, at[one.outputs[piece.output].name])
                counter.add(piece.content.nbytes)
            _let_go(files, one)
        os.fsync(descriptor)
    return placed


def _made(
    files: MappedFiles, conversions: tuple[Conversion, ...], threads: ThreadPoolExecutor
) -> Iterator[tuple[Conversion, tuple[Piece, ...]]]:
    waiting: deque[tuple[Conversion, Future[tuple[Piece, ...]]]] = deque()
    for one in conversions:
        for work in windows(files, one):
            waiting.append((one, threads.submit(work)))
            if len(waiting) > AHEAD:
                first, future = waiting.popleft()
                yield first, future.result()
    while waiting:
        first, future = waiting.popleft()
        yield first, future.result()


def _put(descriptor: int, piece: Piece, begin: int) -> None:
    if piece.content.nbytes:
        write_all(descriptor, memoryview(piece.content.data).cast("B"), begin + piece.offset)


def _let_go(files: MappedFiles, one: Conversion) -> None:
    """Drop what was read of a tensor; windows that are being worked on bring their pages back."""
    for read in (one.values, one.scales, one.zero_points):
        if read is not None:
            files.let_go(read.file, read.begin, read.end)
