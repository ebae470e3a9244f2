"""Statements signed, and signed records opened."""

import base64
import binascii
from collections.abc import Iterable

from dayzero.adapters.signing.keys import PrivateKey, PublicKey
from dayzero.codec import dump, load
from dayzero.domain.vouching import ShardStatement, SignedRecord
from dayzero.errors import BadInputError, IntegrityError

_CONTEXT = b"dayzero.shards-statement/1\n"
"""Goes before every statement that is signed, so that a signature is good for nothing else."""


def sign(statement: ShardStatement, key: PrivateKey) -> SignedRecord:
    """The statement with the key's signature over its text."""
    text = dump(statement)
    return SignedRecord(text.decode(), key.public.id, base64.b64encode(key.sign(_CONTEXT + text)).decode())


def open_record(content: bytes, trusted: Iterable[PublicKey]) -> tuple[ShardStatement, str]:
    """The statement of a signed record, and the id of the key, which is one of the trusted.

    BadInputError: no such record. IntegrityError: a key that is not trusted, or not its signature. Nothing of the statement is
    looked at before its signature holds.
    """
    record = load(SignedRecord, content)
    key = next((key for key in trusted if key.id == record.key_id), None)
    if key is None:
        raise IntegrityError(f"it is signed with the key {record.key_id[:64]}, which is not one of DAYZERO_TRUSTED_KEYS.")
    try:
        signature = base64.b64decode(record.signature, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadInputError("its signature is no base64.") from error
    text = record.statement.encode()
    if not key.signed(_CONTEXT + text, signature):
        raise IntegrityError(f"its signature is not that of the key {key.id}.")
    return load(ShardStatement, text), key.id
