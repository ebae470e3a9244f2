"""Why work waits for a platform: reasons that go away when a worker joins it."""

from dayzero.errors import BlockedError


def no_worker_reason(platform: str) -> str:
    """The one reason that an adaptation is held with for want of a worker."""
    return f"no worker for platform {platform}; start one there: dayzero worker join --platform {platform}"


def no_manifest(platform: str) -> BlockedError:
    """The block of what needs a platform's operators before anybody told them."""
    return BlockedError(
        f"nobody has told yet what {platform} offers, so coverage is unknown.",
        remedy=f"Start a worker there (dayzero worker join --platform {platform}), or import what is published: "
        f"dayzero platform import {platform} PACKAGE",
    )


def no_manifest_reason(platform: str) -> str:
    """The one reason that an adaptation is blocked with for want of a manifest."""
    return str(no_manifest(platform))
