"""A site's own hub as a witness: the manifests of shards that one of its nodes made of whole, checked files."""

import hashlib

from dayzero.adapters.hubs.requests import HubAccess, small_answer
from dayzero.codec import load
from dayzero.domain.planning import Degrees
from dayzero.domain.shards import ShardManifest
from dayzero.errors import IntegrityError, NotFoundError
from dayzero.settings import Settings

_LARGEST_RECORD_BYTES = 512 << 20


def shard_record(settings: Settings, content_id: str, degrees: Degrees) -> ShardManifest | None:
    """The site's manifest of that release and plan; None without a site, or when it has none.

    IntegrityError: what came is not what its digest names, or is of another release or plan. Other errors as for any hub.
    """
    if settings.site_url is None:
        return None
    access = HubAccess(settings.site_url.rstrip("/"), None, settings.hub_timeout_s, settings.hub_retries)
    whose = f"the shard record of {content_id[:12]} for {degrees}"
    try:
        body, headers = small_answer(
            access, f"{access.endpoint}/api/dayzero/shards/{content_id}/{degrees}", whose, _LARGEST_RECORD_BYTES
        )
    except NotFoundError:
        return None
    stated = headers.get("ETag", "").strip('"')
    got = hashlib.sha256(body).hexdigest()
    if stated != got:
        raise IntegrityError(f"{whose} at {access.endpoint} has the sha256 {got}, and is named {stated[:80] or 'by none'}.")
    manifest = load(ShardManifest, body)
    if (manifest.content_id, manifest.degrees) != (content_id, degrees):
        raise IntegrityError(f"{access.endpoint} sent one of {manifest.content_id[:12]} for {manifest.degrees} as {whose}.")
    return manifest
