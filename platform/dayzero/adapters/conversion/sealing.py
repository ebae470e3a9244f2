"""Files that an untrusted process wrote: checked, and given their index."""

import stat
from pathlib import Path

from dayzero.adapters.conversion.mapping import MappedFiles
from dayzero.disk import make_durable, write_whole
from dayzero.domain.tensors import TensorHeader
from dayzero.errors import BadInputError
from dayzero.stages.headers.files import WEIGHTS_INDEX_FILE
from dayzero.stages.headers.writing import index_document


def seal(folder: Path, said: tuple[str, ...]) -> tuple[TensorHeader, ...]:
    """The tensors of a folder that holds exactly the files that were said, each a regular safetensors file, put to the disk.

    An index is written where there are several. BadInputError: anything else lies there.
    """
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.name != ".lock"}
    odd = [name for name, path in found.items() if not stat.S_ISREG(path.lstat().st_mode) or path.lstat().st_nlink != 1]
    if odd or set(found) != set(said):
        raise BadInputError(f"the conversion left {sorted(odd or set(found) ^ set(said))[0]}, which it should not have.")
    with MappedFiles(folder) as files:
        tensors = tuple(tensor for name in sorted(said) for tensor in files.headers(name))
    for path in found.values():
        make_durable(path)
    if len(said) > 1:
        write_whole(folder / WEIGHTS_INDEX_FILE, index_document(tensors))
    return tensors
