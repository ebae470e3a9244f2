"""The digest of a rank file: over its header and its tensors' digests, so that each tensor can be checked for itself."""

import hashlib
from collections.abc import Iterable


def file_digest(header: bytes, tensor_digests: Iterable[str]) -> str:
    """The sha256, in hex, over a rank file's first bytes (length and JSON header) and the xxh3_128 digests of its tensors (hex
    here, 16 bytes each there) in the order of the file."""
    whole = hashlib.sha256(header)
    for one in tensor_digests:
        whole.update(bytes.fromhex(one))
    return whole.hexdigest()
