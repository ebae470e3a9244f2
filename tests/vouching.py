"""Sites of tests: a key, shards signed with it, and what a node that trusts it is told."""

from pathlib import Path

from dayzero.adapters.signing.keys import PrivateKey, make_key
from dayzero.adapters.signing.records import sign
from dayzero.adapters.transfer.vouching import keep_record, statement_of_shards
from dayzero.codec import dump
from dayzero.domain.vouching import ShardStatement, SignedRecord, Witness


def key_in(folder: Path, name: str = "site.pem") -> PrivateKey:
    return make_key(folder / name)


def signed(shards: Path, key: PrivateKey) -> SignedRecord:
    """Sign for the shards of a folder, and leave the record there."""
    record = sign(statement_of_shards(shards), key)
    keep_record(shards, dump(record))
    return record


def told(statement: ShardStatement, key: PrivateKey) -> Witness:
    """What a node takes for true."""
    return Witness(statement, key.public.id)
