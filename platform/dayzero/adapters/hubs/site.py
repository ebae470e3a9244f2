"""A site's own hub as a witness: what one of its nodes signed of the shards that it made of whole, checked files."""

from dayzero.adapters.hubs.requests import HubAccess, small_answer
from dayzero.domain.planning import Degrees
from dayzero.errors import NotFoundError
from dayzero.settings import Settings

_LARGEST_RECORD_BYTES = 16 << 20


def signed_record(settings: Settings, content_id: str, degrees: Degrees) -> bytes | None:
    """The site's signed record of that content and plan as it came, unchecked; None without a site, or when it has none.

    Errors as for any hub.
    """
    if settings.site_url is None:
        return None
    access = HubAccess(settings.site_url.rstrip("/"), None, settings.hub_timeout_s, settings.hub_retries)
    whose = f"the shard record of {content_id[:12]} for {degrees}"
    try:
        return small_answer(
            access, f"{access.endpoint}/api/dayzero/shards/{content_id}/{degrees}", whose, _LARGEST_RECORD_BYTES
        )[0]
    except NotFoundError:
        return None
