"""What a node that hashed whole files states of the rank files that it made of them, and who signed it."""

from dataclasses import dataclass

from dayzero.domain.planning import Degrees
from dayzero.domain.shards import ShardSource

STATEMENT = "dayzero.shards-statement/1"


@dataclass(frozen=True, slots=True)
class StatedFile:
    """A rank file: its name, size, and the sha256 of all its bytes."""

    rank: int
    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ShardStatement:
    """These rank files were made, for that content and plan, of sources that passed whole with the hash that their release
    states."""

    content_id: str
    degrees: Degrees
    redundant_experts: int
    sources: tuple[ShardSource, ...]
    files: tuple[StatedFile, ...]
    schema: str = STATEMENT


@dataclass(frozen=True, slots=True)
class SignedRecord:
    """A statement as the very text that was signed, the id of the key, and the signature (base64)."""

    statement: str
    key_id: str
    signature: str


@dataclass(frozen=True, slots=True)
class Witness:
    """What a site says of a release under a plan: its statement and whose key signed it, or why there is none to go by."""

    statement: ShardStatement | None
    key_id: str = ""
    reason: str = ""
