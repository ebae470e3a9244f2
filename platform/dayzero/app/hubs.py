"""Which adapter serves a source or a release, and the store before it."""

import logging
from collections.abc import Callable

from dayzero.adapters.hubs.choose import hub_for
from dayzero.adapters.objects.hub import StoredHub
from dayzero.adapters.objects.store import ObjectStore
from dayzero.adapters.packages.library import LibraryHub
from dayzero.domain.release import HubKind, Release
from dayzero.domain.watching import WatchSource
from dayzero.ports.hub import Hub
from dayzero.settings import Settings

logger = logging.getLogger(__name__)


def hub_of(source: Release | WatchSource, settings: Settings) -> Hub:
    """The hub of models, or the package whose releases announce architectures."""
    if source.hub is HubKind.PYPI:
        package = source.location if isinstance(source, WatchSource) else source.repo_id.partition("/")[0]
        return LibraryHub(package, settings.data_dir / "packages")
    return hub_for(source, settings)


def store_of(settings: Settings, tell: Callable[[str], None] = logger.warning) -> ObjectStore:
    """This site's store; `tell` takes a sentence for each eviction and each wait."""
    return ObjectStore(settings.store_dir or settings.data_dir.resolve() / "store", settings.store_limit_bytes, tell)


def stored_hub(release: Release, settings: Settings, store: ObjectStore) -> Hub:
    """The hub of a release, behind the store where it is another host's."""
    hub = hub_of(release, settings)
    return StoredHub(hub, store) if release.hub is HubKind.HUGGING_FACE else hub
