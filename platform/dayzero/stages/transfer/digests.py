"""Digests: of a file as its hub states it; of a rank file over its header and its tensors' digests, so that each tensor can be
checked for itself."""

import hashlib
import json
from collections.abc import Iterable
from typing import Protocol

from dayzero.domain.release import RepoFile
from dayzero.domain.shards import ShardTensor
from dayzero.errors import BadInputError

_HEX = 32
_GIT_DIGITS = 40


class Hash(Protocol):
    """What hashlib's objects do."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Take more bytes."""
        ...

    def hexdigest(self) -> str:
        """The digest so far, in hex."""
        ...


def stated_hash(file: RepoFile) -> tuple[Hash, str] | None:
    """A fresh hash, and what it must become over the file's bytes: the sha256 that the hub states, else the git blob id; None
    when it states neither."""
    if file.sha256:
        return hashlib.sha256(), file.sha256
    if file.git_blob_id:
        return git_blob_hash(file.size_bytes), file.git_blob_id
    return None


def git_blob_hash(size_bytes: int) -> Hash:
    """A hash that becomes the git blob id when fed a content of that size (git: sha1 over "blob <size>\\0" and the content)."""
    return hashlib.sha1(b"blob %d\0" % size_bytes, usedforsecurity=False)


def is_git_blob_id(digest: str | None) -> bool:
    """Whether a digest is as long as a git blob id; the other kind is a sha256."""
    return digest is not None and len(digest) == _GIT_DIGITS


def is_as_stated(content: bytes, file: RepoFile) -> bool:
    """Whether a file's whole content has the size and the digest that its hub states; False when it states none."""
    expected = stated_hash(file)
    if expected is None or len(content) != file.size_bytes:
        return False
    expected[0].update(content)
    return expected[0].hexdigest() == expected[1]


def file_digest(header: bytes, tensor_digests: Iterable[str]) -> str:
    """The sha256, in hex, over a rank file's first bytes (length and JSON header) and the xxh3_128 digests of its tensors (hex
    here, 16 bytes each there) in the order of the file."""
    whole = hashlib.sha256(header)
    for one in tensor_digests:
        whole.update(bytes.fromhex(one))
    return whole.hexdigest()


def digest_lines(tensors: Iterable[ShardTensor], tensor_digests: Iterable[str]) -> bytes:
    """The digests of a file's tensors as text: digest, two spaces, the tensor's name as JSON; in the order of the file."""
    pairs = zip(tensors, tensor_digests, strict=True)
    return "".join(f"{one}  {json.dumps(tensor.name)}\n" for tensor, one in pairs).encode()


def parse_digest_lines(content: bytes, tensors: tuple[ShardTensor, ...]) -> tuple[str, ...]:
    """The digests from such text; BadInputError when it is not of these tensors."""
    digests = tuple(line[:_HEX].decode("ascii", "replace") for line in content.splitlines())
    if len(digests) != len(tensors) or digest_lines(tensors, digests) != content or not all(map(_is_hex, digests)):
        raise BadInputError("the recorded digests are not those of the file's tensors.", remedy="Write the shards again.")
    return digests


def _is_hex(text: str) -> bool:
    return len(text) == _HEX and not set(text) - set("0123456789abcdef")
