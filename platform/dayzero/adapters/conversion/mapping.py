"""Files of tensors as mapped bytes; pages that were read are let go again."""

import mmap
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from dayzero.adapters.conversion.rounding import Bytes
from dayzero.domain.findings import Severity
from dayzero.domain.release import RepoFile
from dayzero.domain.tensors import CheckpointIndex, TensorHeader
from dayzero.errors import BadInputError
from dayzero.names import safe_path
from dayzero.stages.headers.files import WEIGHTS_INDEX_FILE, needed_weights
from dayzero.stages.headers.reading import LENGTH_BYTES, header_length, index_of, parse_header, parse_weight_map
from dayzero.stages.watching.roles import role_of


class MappedFiles:
    """The safetensors files of a folder, mapped when they are first asked for; a context manager that unmaps them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._maps: dict[str, mmap.mmap] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for mapped in self._maps.values():
            # A view may still be held by the frames of an error on its way up; the process then unmaps it.
            with suppress(BufferError):
                mapped.close()

    def headers(self, file: str) -> tuple[TensorHeader, ...]:
        """The tensors of one file; BadInputError when it is none."""
        mapped = self._mapped(file)
        length = header_length(mapped[:LENGTH_BYTES], file, len(mapped))
        return parse_header(file, len(mapped), mapped[LENGTH_BYTES : LENGTH_BYTES + length])

    def bytes_of(self, file: str, begin: int, end: int) -> Bytes:
        """A view of a file's bytes [begin, end); BadInputError when it ends before."""
        mapped = self._mapped(file)
        if not 0 <= begin <= end <= len(mapped):
            raise BadInputError(
                f"{self.folder / file} has {len(mapped)} bytes; bytes {begin} to {end} are wanted.",
                remedy="Fetch the model again.",
            )
        return np.frombuffer(mapped, np.uint8, end - begin, begin)

    def let_go(self, file: str, begin: int, end: int) -> None:
        """Drop the pages of a range from this process; they stay in the page cache."""
        first = begin - begin % mmap.PAGESIZE
        if end > first:
            self._mapped(file).madvise(mmap.MADV_DONTNEED, first, end - first)

    def _mapped(self, file: str) -> mmap.mmap:
        if file not in self._maps:
            path = self.folder / safe_path(file, str(self.folder))
            try:
                with path.open("rb") as stream:
                    if os.fstat(stream.fileno()).st_size < LENGTH_BYTES:
                        raise BadInputError(f"{path} is too short for a safetensors file.", remedy="Fetch it again.")
                    self._maps[file] = mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ)
            except OSError as error:
                raise BadInputError(f"{path} cannot be read: {error.strerror}.", remedy="Fetch the model again.") from error
        return self._maps[file]


def read_index(files: MappedFiles) -> CheckpointIndex:
    """Every tensor of a checkpoint folder; BadInputError when its index and its headers disagree, or it has no safetensors."""
    folder = files.folder
    listed = [
        RepoFile(path.name, path.stat().st_size, role_of(path.name)) for path in sorted(folder.iterdir()) if path.is_file()
    ]
    document = (folder / WEIGHTS_INDEX_FILE).read_bytes() if (folder / WEIGHTS_INDEX_FILE).is_file() else None
    mapped = parse_weight_map(document) if document is not None else None
    index = index_of({file.path: files.headers(file.path) for file in needed_weights(listed, mapped)}, document)
    wrong = next((found for found in index.findings if found.severity is Severity.ERROR), None)
    if wrong is not None:
        raise BadInputError(f"{folder}: {wrong.message}.", remedy="Fetch the model again.")
    if not index.tensors:
        raise BadInputError(f"{folder} holds no safetensors.", remedy="Name the folder of a checkpoint.")
    return index
