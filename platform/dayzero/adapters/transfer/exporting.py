"""Exporting: shards of any plan back into the files of the checkpoint, every tensor as it was, with their index."""

from collections.abc import Mapping
from pathlib import Path

from dayzero.adapters.transfer.joined import ShardReader, joined_windows
from dayzero.counting import Counter
from dayzero.disk import make_durable, refusals_spoken, write_all, write_whole
from dayzero.domain.shards import ShardManifest
from dayzero.domain.tensors import TensorHeader
from dayzero.names import inside
from dayzero.ports.hub import Progress
from dayzero.stages.headers.files import WEIGHTS_INDEX_FILE
from dayzero.stages.headers.writing import aligned, index_document, placed_file
from dayzero.stages.layout.joining import JoinedTensor, joined_tensors

JoinedFiles = Mapping[str, tuple[JoinedTensor, ...]]


def joined_files(manifest: ShardManifest) -> JoinedFiles:
    """The tensors of the shards, whole, by the file of the checkpoint that they came from, sorted.

    BadInputError: ranks are missing, or shards do not make up whole tensors.
    """
    files: dict[str, list[JoinedTensor]] = {}
    for tensor in joined_tensors(manifest):
        files.setdefault(tensor.file, []).append(tensor)
    return {file: tuple(files[file]) for file in sorted(files)}


def export_files(shards: Path, files: JoinedFiles, into: Path, progress: Progress | None = None) -> tuple[TensorHeader, ...]:
    """Write the files and their index, where there are several, into a folder of nobody else's.

    BadInputError: a file's name climbs out. IntegrityError: a shard ends early. DependencyError: the disk fails.
    """
    counter = Counter(progress, sum(one.size_bytes for tensors in files.values() for one in tensors))
    placed: list[TensorHeader] = []
    with ShardReader(shards) as reader:
        for file, tensors in files.items():
            placed += _write(reader, file, tensors, into, counter)
    if len(files) > 1:
        write_whole(into / WEIGHTS_INDEX_FILE, index_document(placed))
    return tuple(placed)


def _write(
    reader: ShardReader, file: str, tensors: tuple[JoinedTensor, ...], into: Path, counter: Counter
) -> tuple[TensorHeader, ...]:
    rows = [(one.name, one.dtype, one.shape) for one in sorted(tensors, key=lambda one: (one.begin, one.name))]
    in_place = all(one.begin for one in tensors)
    header, placed = placed_file(file, rows if in_place else aligned(rows), {"format": "pt"})
    begin = {tensor.name: tensor.begin for tensor in placed}
    path = inside(into, file, "the manifest of the shards")
    with refusals_spoken(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb", buffering=0) as stream:
            write_all(stream.fileno(), header, 0)
            for tensor in sorted(tensors, key=lambda one: begin[one.name]):
                for at, window in joined_windows(reader, tensor):
                    write_all(stream.fileno(), window, begin[tensor.name] + at)
                    counter.add(len(window))
        make_durable(path)
    return placed
