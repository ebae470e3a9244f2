"""A hub in memory whose downloads are resumed and checked like those of the real one; it counts the bytes that it sends."""

import hashlib
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dayzero.adapters.hubs.digests import git_blob_id
from dayzero.adapters.hubs.downloading import partial_file
from dayzero.domain.release import HubKind, Release, ReleaseStage, RepoFile, content_id_of
from dayzero.errors import UnavailableError
from dayzero.names import inside
from dayzero.ports.hub import Progress
from dayzero.stages.watching.roles import role_of

_WINDOW_BYTES = 1000


def release_of(files: Mapping[str, bytes], repo_id: str = "acme/tiny", revision: str = "c" * 40) -> Release:
    """A release with these files: weights by sha256, the others by git blob id."""
    listed = tuple(
        RepoFile(path, len(content), role_of(path), hashlib.sha256(content).hexdigest())
        if path.endswith(".safetensors")
        else RepoFile(path, len(content), role_of(path), None, git_blob_id(content))
        for path, content in files.items()
    )
    return Release(HubKind.HUGGING_FACE, repo_id, revision, ReleaseStage.WEIGHTS, listed, content_id_of(listed))


@dataclass
class MemoryHub:
    """Files by stated digest; `breaks_after_bytes` ends every connection after so many."""

    contents: dict[str, bytes] = field(default_factory=dict)
    breaks_after_bytes: int | None = None
    sent_bytes: int = 0

    def publish(self, release: Release, files: Mapping[str, bytes]) -> None:
        for file in release.files:
            self.contents[file.sha256 or file.git_blob_id or ""] = files[file.path]

    def content(self, release: Release, path: str) -> bytes:
        file = next(file for file in release.files if file.path == path)
        return self.contents[file.sha256 or file.git_blob_id or ""]

    def read_small(self, release: Release, path: str, max_bytes: int) -> bytes:
        content = self.content(release, path)
        self.sent_bytes += len(content)
        return content

    def read_range(self, release: Release, path: str, begin: int, end: int) -> bytes:
        self.sent_bytes += end - begin
        return self.content(release, path)[begin:end]

    def stream(
        self, release: Release, path: str, ranges: Sequence[tuple[int, int]], *, connections: int = 1
    ) -> Generator[tuple[int, memoryview], None, None]:
        for begin, end in ranges:
            yield begin, memoryview(self.read_range(release, path, begin, end))

    def download(self, release: Release, path: str, into: Path, progress: Progress | None) -> Path:
        file = next(file for file in release.files if file.path == path)
        content, sent = self.content(release, path), 0
        with partial_file(inside(into, path, str(release.ref)), file, str(release.ref)) as partial:
            if partial is None:
                return into / path
            for at in range(partial.done_bytes, len(content), _WINDOW_BYTES):
                if self.breaks_after_bytes is not None and sent >= self.breaks_after_bytes:
                    raise UnavailableError("the connection broke.")
                window = content[at : at + _WINDOW_BYTES]
                partial.write(window)
                sent += len(window)
                self.sent_bytes += len(window)
            return partial.finish()
