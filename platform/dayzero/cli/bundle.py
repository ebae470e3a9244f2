"""dayzero bundle: the files of an entry's bundle, in a folder."""

import gzip
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Annotated, BinaryIO

import typer

from dayzero.cli.opening import open_plane
from dayzero.cli.output import print_document, print_table
from dayzero.domain.canonical import Json
from dayzero.errors import BadInputError, NotFoundError

MAX_FILE_BYTES = 64 * 2**20


def bundle(
    context: typer.Context,
    entry: Annotated[str, typer.Argument(help="Id of an entry, or its beginning; see `dayzero compat ls`.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the files; made when it is not there.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Unpack an entry's bundle: launch script, Compose file, Dockerfile, deployment guide, performance table."""
    with open_plane(context) as plane:
        found = plane.compatibility.entry(entry)
        if found.bundle is None:
            raise NotFoundError(
                f"entry {entry} of {found.key.model} has no bundle: {found.reason}.",
                remedy="Only an adaptation that ran through makes one; `dayzero run retry` starts it again.",
            )
        with plane.artifacts.open(found.bundle) as archive:
            files = unpack(archive, out)
    if json:
        rows: list[Json] = [{"path": name, "size_bytes": size} for name, size in files]
        print_document({"schema": "dayzero.bundle/1", "entry": entry, "bundle": found.bundle, "out": str(out), "files": rows})
        return
    print_table(f"{found.key.model} on {found.key.platform}: {out}", [{"file": name, "bytes": size} for name, size in files])


def unpack(archive: BinaryIO, into: Path) -> list[tuple[str, int]]:
    """The archive's files under the folder, as (path, size); BadInputError for what is no plain file inside it."""
    written: list[tuple[str, int]] = []
    try:
        with tarfile.open(fileobj=archive, mode="r:gz") as tar:
            for member in tar:
                path = PurePosixPath(member.name)
                if not member.isfile() or path.is_absolute() or ".." in path.parts or member.size > MAX_FILE_BYTES:
                    raise BadInputError(f"the bundle holds {member.name[:100]!r}, which is not unpacked.")
                content = tar.extractfile(member)
                assert content is not None, "a plain file has content"
                target = into / path
                target.parent.mkdir(parents=True, exist_ok=True)
                # Taken away first: a link that lies there already must not be written through.
                target.unlink(missing_ok=True)
                target.write_bytes(content.read())
                target.chmod(0o755 if member.mode & 0o100 else 0o644)
                written.append((member.name, member.size))
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BadInputError(f"the bundle is no archive: {error}.", remedy="`dayzero run retry` makes it anew.") from error
    except OSError as error:
        raise BadInputError(f"{into} cannot be written: {error.strerror or error}.", remedy="Name another --out.") from error
    return written
