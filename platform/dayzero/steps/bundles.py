"""Reading single files of a bundle that lies among the artifacts."""

import gzip
import tarfile
import zlib

from dayzero.errors import NotFoundError
from dayzero.ports.hub import ArtifactStore

MAX_BYTES = 8 * 2**20
MAX_MEMBERS = 1000
"""A bundle holds a dozen files; a worker wrote it, and what it says of itself is not believed."""


def bundled_file(artifacts: ArtifactStore, bundle: str | None, path: str) -> bytes | None:
    """The bytes of a file in the bundle; None where there is no bundle, no such file, or none that can be read."""
    if bundle is None:
        return None
    try:
        with artifacts.open(bundle) as archive, tarfile.open(fileobj=archive, mode="r|gz") as tar:
            for number, member in enumerate(tar):
                if number >= MAX_MEMBERS:
                    return None
                if member.name == path and member.isfile() and member.size <= MAX_BYTES:
                    content = tar.extractfile(member)
                    return None if content is None else content.read(MAX_BYTES)
    except (NotFoundError, tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error, OSError):
        return None
    return None
