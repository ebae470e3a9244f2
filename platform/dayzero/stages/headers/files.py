"""Which files of a repository adaptation needs."""

import re
from collections.abc import Iterable, Mapping, Sequence

from dayzero.domain.findings import Finding, Severity
from dayzero.domain.release import FileRole, Release, RepoFile
from dayzero.errors import NotFoundError
from dayzero.stages.headers.reading import MAX_LISTED

WEIGHTS_INDEX_FILE = "model.safetensors.index.json"
PICKLES_INDEX_FILE = "pytorch_model.bin.index.json"
_SERIES = re.compile(r"(.+)-\d{5}-of-\d{5}\.safetensors")
_NAMED = 5


def file_of(release: Release, path: str) -> RepoFile:
    """The file of a release under a path; NotFoundError when it has none."""
    for file in release.files:
        if file.path == path:
            return file
    raise NotFoundError(
        f"there is no file {path[:200]} in {release.ref}.",
        remedy="Resolve the model again: what asks for it was made from other files.",
    )


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


def needed_pickles(files: Sequence[RepoFile], weight_map: Mapping[str, str] | None) -> tuple[RepoFile, ...]:
    """The .bin files that hold the checkpoint, by path: as needed_weights, with pytorch_model.bin for model.safetensors."""
    pickles = {file.path: file for file in files if file.role is FileRole.WEIGHTS and file.path.endswith(".bin")}
    if weight_map is not None:
        return tuple(pickles[path] for path in sorted(set(weight_map.values())) if path in pickles)
    if "pytorch_model.bin" in pickles:
        return (pickles["pytorch_model.bin"],)
    return tuple(pickles[path] for path in sorted(pickles) if "/" not in path)


def runner_files(files: Iterable[RepoFile]) -> tuple[RepoFile, ...]:
    """What a runner needs beside weights, by path: configuration and tokenizer files at the top."""
    small = (FileRole.CONFIGURATION, FileRole.TOKENIZER)
    return tuple(sorted((file for file in files if file.role in small and "/" not in file.path), key=lambda file: file.path))


def needed_small_files(files: Sequence[RepoFile]) -> tuple[RepoFile, ...]:
    """What a runner needs beside weights, more chat templates, and the safetensors index; by path."""
    more = (file for file in files if file.path.startswith("chat_templates/") or file.path == WEIGHTS_INDEX_FILE)
    return tuple(sorted((*runner_files(files), *more), key=lambda file: file.path))


def unread_weights(files: Sequence[RepoFile], weight_map: Mapping[str, str] | None) -> tuple[Finding, ...]:
    """The safetensors files at the top that are not of the checkpoint: an error for parts of a series that the index leaves
    out (`index.file_unindexed`), a warning for copies (`index.copy_unread`). Copies in other folders are nobody's concern."""
    read = {file.path for file in needed_weights(files, weight_map)}
    held = {file.path for file in files if file.role is FileRole.WEIGHTS and file.path.endswith(".safetensors")}
    beside = sorted(path for path in held - read if "/" not in path)
    series = {found.group(1) for path in read if (found := _SERIES.fullmatch(path))}
    parts = [path for path in beside if (found := _SERIES.fullmatch(path)) and found.group(1) in series]
    copies = [path for path in beside if path not in parts]
    return (
        *_unread("index.file_unindexed", parts, "files of the same series are in no index", Severity.ERROR),
        *_unread("index.copy_unread", copies, "other safetensors files lie beside the checkpoint and are not read",
                 Severity.WARNING),
    )  # fmt: skip


def disagreement(findings: Iterable[Finding]) -> str | None:
    """What is wrong between index, files and headers, as one text; None when nothing keeps the weights from being used."""
    wrong = [one.message for one in findings if one.severity is Severity.ERROR and one.code.startswith("index.")]
    return "; ".join(wrong) or None


def _unread(code: str, paths: list[str], what: str, severity: Severity) -> tuple[Finding, ...]:
    if not paths:
        return ()
    shown = ", ".join(path[:160] for path in paths[:_NAMED]) + (" …" if len(paths) > _NAMED else "")
    message = f"{len(paths)} {what}: {shown}"
    return (Finding(code, paths[0][:160], message, severity, {"count": len(paths)}, tuple(paths[:MAX_LISTED])),)
