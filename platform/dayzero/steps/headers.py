"""A checkpoint's headers over a hub, by ranged reads: no weights are downloaded."""

from collections.abc import Mapping
from dataclasses import replace

from dayzero.domain.release import Release, RepoFile
from dayzero.domain.tensors import CheckpointIndex, TensorHeader
from dayzero.ports.hub import Hub
from dayzero.stages.headers.files import WEIGHTS_INDEX_FILE, needed_weights, unread_weights
from dayzero.stages.headers.reading import (
    LENGTH_BYTES,
    MAX_INDEX_BYTES,
    header_length,
    index_of,
    parse_header,
    parse_weight_map,
)

FIRST_READ_BYTES = 64 * 1024


def checkpoint_index(hub: Hub, release: Release) -> CheckpointIndex:
    """Every tensor of the release's safetensors files, cross-checked with its index.

    BadInputError: a header or the index lies. The hub's errors pass through. A release without safetensors gives an empty
    index; files that the index names and the release lacks are findings.
    """
    document = weight_map_of(hub, release)
    mapped = parse_weight_map(document) if document is not None else None
    headers: Mapping[str, tuple[TensorHeader, ...]] = {
        file.path: read_header(hub, release, file) for file in needed_weights(release.files, mapped)
    }
    found = index_of(headers, mapped)
    return replace(found, findings=(*found.findings, *unread_weights(release.files, mapped)))


def weight_map_of(hub: Hub, release: Release) -> bytes | None:
    """The bytes of the safetensors index, or None when the release has none."""
    if not any(file.path == WEIGHTS_INDEX_FILE for file in release.files):
        return None
    return hub.read_small(release, WEIGHTS_INDEX_FILE, MAX_INDEX_BYTES)


def read_header(hub: Hub, release: Release, file: RepoFile) -> tuple[TensorHeader, ...]:
    """The tensors of one file: one ranged read, a second one when the header is longer than the first."""
    first = hub.read_range(release, file.path, 0, min(FIRST_READ_BYTES, file.size_bytes))
    end = LENGTH_BYTES + header_length(first, file.path, file.size_bytes)
    if end > len(first):
        first += hub.read_range(release, file.path, len(first), end)
    return parse_header(file.path, file.size_bytes, first[LENGTH_BYTES:end])
