"""Nodes of a site that vouch for each other's shards: keys, signed records, and what is believed of them."""

from pathlib import Path

from dayzero.adapters.hubs.site import signed_record
from dayzero.adapters.signing.keys import PublicKey, make_key, parse_public, read_key
from dayzero.adapters.signing.records import open_record, sign
from dayzero.adapters.transfer.vouching import keep_record, statement_of_shards
from dayzero.codec import dump
from dayzero.domain.release import Release
from dayzero.domain.shards import ShardManifest
from dayzero.domain.vouching import SignedRecord, Witness
from dayzero.errors import BadInputError, IntegrityError
from dayzero.ports.hub import Progress
from dayzero.settings import Settings
from dayzero.stages.transfer.vouching import refusal


def key_path(settings: Settings) -> Path:
    """Where this node's private key is, or will be."""
    return settings.signing_key or settings.data_dir / "keys" / "signing.pem"


def new_signing_key(settings: Settings) -> PublicKey:
    """Make this node's key; BadInputError when it has one."""
    return make_key(key_path(settings)).public


def own_signing_key(settings: Settings) -> PublicKey:
    """The public half of this node's key; NotFoundError when it has none."""
    return read_key(key_path(settings)).public


def sign_shards(settings: Settings, folder: Path, progress: Progress | None) -> tuple[SignedRecord, Path]:
    """Check the shards of a folder and sign for them; the record, and where it lies now. See statement_of_shards."""
    key = read_key(key_path(settings))
    record = sign(statement_of_shards(folder, progress), key)
    return record, keep_record(folder, dump(record))


def witness(settings: Settings, release: Release, layout: ShardManifest) -> Witness:
    """What the site says of the layout's rank files, where a trusted key signed it; else why nothing can be gone by.

    Errors of a hub when the site cannot be asked; BadInputError for a trusted key that is none.
    """
    trusted = [parse_public(text) for text in settings.trusted_keys]
    if settings.site_url is None:
        return Witness(None, reason="no site is asked: DAYZERO_SITE_URL is not set")
    content = signed_record(settings, release.content_id, layout.degrees)
    if content is None:
        return Witness(None, reason=f"{settings.site_url} has no signed record of it for {layout.degrees}")
    try:
        statement, key_id = open_record(content, trusted)
    except (BadInputError, IntegrityError) as error:
        return Witness(None, reason=f"the record of {settings.site_url} is refused: {error.message}")
    why = refusal(statement, release, layout)
    if why is not None:
        return Witness(None, key_id, f"the record of {settings.site_url}, signed with {key_id}, is refused: {why}")
    return Witness(statement, key_id)
