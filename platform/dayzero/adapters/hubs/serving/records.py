"""Signed records of shards that this host made, found by content and plan."""

from collections.abc import Iterator
from pathlib import Path

from dayzero.codec import load
from dayzero.domain.vouching import ShardStatement, SignedRecord
from dayzero.errors import BadInputError

RECORD = "manifest.signed.json"


class ShardRecords:
    """The signed records under folders of shards, looked for anew at every question."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        for folder in folders:
            if not folder.is_dir():
                raise BadInputError(f"{folder} is not a folder.", remedy="Name a folder that `dayzero fetch --out` wrote.")
        self._folders = tuple(folder.resolve() for folder in folders)

    def find(self, content_id: str, degrees: str) -> bytes | None:
        """The record about a content under a plan; None when there is none. Records that cannot be read are left out.

        Its signature is not looked at: who asks knows whom to trust.
        """
        for path in self._records():
            try:
                content = path.read_bytes()
                statement = load(ShardStatement, load(SignedRecord, content).statement)
            except (OSError, BadInputError):
                continue
            if statement.content_id == content_id and str(statement.degrees) == degrees:
                return content
        return None

    def _records(self) -> Iterator[Path]:
        for folder in self._folders:
            for pattern in (RECORD, f"*/{RECORD}", f"*/*/{RECORD}"):
                for path in sorted(folder.glob(pattern)):
                    if path.is_file() and path.resolve().is_relative_to(folder):
                        yield path
