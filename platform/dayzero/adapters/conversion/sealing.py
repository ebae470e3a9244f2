"""Files that an untrusted process wrote: checked, hashed, and given their index, in a folder that is whole or not there."""

import hashlib
import stat
from collections.abc import Callable
from pathlib import Path

from dayzero.adapters.conversion.beside import copy_beside
from dayzero.adapters.conversion.folder import whole_folder
from dayzero.codec import dump, load
from dayzero.disk import make_durable, write_whole
from dayzero.domain.conversion import Converted, Unpickled
from dayzero.domain.tensors import CheckpointIndex, TensorHeader
from dayzero.errors import BadInputError, DependencyError
from dayzero.stages.headers.files import WEIGHTS_INDEX_FILE
from dayzero.stages.headers.writing import index_document

RECORD = ".converted.json"
"""What was converted, in the folder itself: the tensors and the sha256 of each file."""


class SealedFolders:
    """The Conversions port on this disk."""

    def kept(self, folder: Path) -> Converted | None:
        """What an earlier conversion left in a folder; None when none ended there, or its record cannot be read."""
        try:
            return load(Converted, (folder / RECORD).read_bytes())
        except (OSError, BadInputError):
            return None

    def sealed(
        self, model_dir: Path, into: Path, needed_bytes: int, read: Callable[[Path], Unpickled], names: frozenset[str]
    ) -> Converted:
        """A new folder with the files that `read` writes into the folder that it is given, checked and hashed, and with what
        lies beside the weights in `model_dir`; see the port."""
        with whole_folder(into, needed_bytes) as partial:
            files = read(partial).files
            tensors = _checked_tensors(partial, files)
            absent = sorted(names - {tensor.name for tensor in tensors})
            if absent:
                raise BadInputError(
                    f"{len(absent)} tensors that the index names are in none of the pickles of {model_dir}: {absent[0][:160]}.",
                    remedy="Wait until the publisher has mended it.",
                )
            index = CheckpointIndex(tuple(sorted(tensors, key=lambda tensor: tensor.name)))
            converted = Converted(index, {name: _sha256(partial / name) for name in sorted(files)})
            if len(files) > 1:
                write_whole(partial / WEIGHTS_INDEX_FILE, index_document(tensors))
            copy_beside(model_dir, partial)
            write_whole(partial / RECORD, dump(converted))
        return converted


def _checked_tensors(folder: Path, said: tuple[str, ...]) -> tuple[TensorHeader, ...]:
    """The tensors of a folder that holds exactly the files that were said, each a regular safetensors file, put to the disk."""
    try:
        from dayzero.adapters.conversion.mapping import MappedFiles
    except ImportError as error:
        raise DependencyError(
            f"reading pickles needs {error.name}.", remedy="Install the extra: pip install 'dayzero[worker]'."
        ) from error
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.name != ".lock"}
    odd = [name for name, path in found.items() if not stat.S_ISREG(path.lstat().st_mode) or path.lstat().st_nlink != 1]
    if odd or set(found) != set(said):
        raise BadInputError(
            f"the conversion left {sorted(odd or set(found) ^ set(said))[0]}, which it should not have.",
            remedy="Nothing was kept; do not trust these pickles.",
        )
    with MappedFiles(folder) as files:
        tensors = tuple(tensor for name in sorted(said) for tensor in files.headers(name))
    for path in found.values():
        make_durable(path)
    return tensors


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
