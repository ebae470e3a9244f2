"""Which files of a repository adaptation needs."""

from collections.abc import Mapping, Sequence

from dayzero.domain.release import FileRole, RepoFile

WEIGHTS_INDEX_FILE = "model.safetensors.index.json"


def needed_weights(files: Sequence[RepoFile], weight_map: Mapping[str, str] | None) -> tuple[RepoFile, ...]:
    """The safetensors files that hold the checkpoint, by path.

    With an index: the files that it names (those that are there). Without: model.safetensors at the top, else every
    safetensors file at the top. Copies in other folders and other formats are not needed.
    """
    tensors = {file.path: file for file in files if file.role is FileRole.WEIGHTS and file.path.endswith(".safetensors")}
    if weight_map is not None:
        return tuple(tensors[path] for path in sorted(set(weight_map.values())) if path in tensors)
    if "model.safetensors" in tensors:
        return (tensors["model.safetensors"],)
    return tuple(tensors[path] for path in sorted(tensors) if "/" not in path)


def needed_small_files(files: Sequence[RepoFile]) -> tuple[RepoFile, ...]:
    """Configuration and tokenizer files at the top (and chat templates), and the safetensors index."""
    taken = []
    for file in files:
        small = file.role in (FileRole.CONFIGURATION, FileRole.TOKENIZER)
        top = "/" not in file.path or file.path.startswith("chat_templates/")
        if (small and top) or file.path == WEIGHTS_INDEX_FILE:
            taken.append(file)
    return tuple(sorted(taken, key=lambda file: file.path))
