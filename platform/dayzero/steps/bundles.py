"""Reading single files of a bundle that lies among the artifacts."""

import gzip
import tarfile
import zlib
from collections.abc import Callable

from dayzero.errors import NotFoundError
from dayzero.ports.hub import ArtifactStore

MAX_BYTES = 8 * 2**20
MAX_MEMBERS = 1000
"""A bundle holds a dozen files; a worker wrote it, and what it says of itself is not believed."""


def bundled_file(artifacts: ArtifactStore, bundle: str | None, path: str) -> bytes | None:
    """The bytes of a file in the bundle; None where there is no bundle, no such file, or none that can be read."""
    return bundled_files(artifacts, bundle, lambda name: name == path).get(path)


def bundled_files(artifacts: ArtifactStore, bundle: str | None, wanted: Callable[[str], bool]) -> dict[str, bytes]:
    """The wanted files of the bundle by their paths, in one reading; those before the place where it cannot be read."""
    found: dict[str, bytes] = {}
    if bundle is None:
        return found
    try:
        with artifacts.open(bundle) as archive, tarfile.open(fileobj=archive, mode="r|gz") as tar:
            for number, member in enumerate(tar):
                if number >= MAX_MEMBERS:
                    break
                if wanted(member.name) and member.isfile() and member.size <= MAX_BYTES and member.name not in found:
                    content = tar.extractfile(member)
                    if content is not None:
                        found[member.name] = content.read(MAX_BYTES)
    except (NotFoundError, tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error, OSError):
        return found
    return found
