"""Which adapter serves a source or a release."""

from dayzero.adapters.hubs.choose import hub_for
from dayzero.adapters.packages.library import LibraryHub
from dayzero.domain.release import HubKind, Release
from dayzero.domain.watching import WatchSource
from dayzero.ports.hub import Hub
from dayzero.settings import Settings


def hub_of(source: Release | WatchSource, settings: Settings) -> Hub:
    """The hub of models, or the package whose releases announce architectures."""
    if source.hub is HubKind.PYPI:
        package = source.location if isinstance(source, WatchSource) else source.repo_id.partition("/")[0]
        return LibraryHub(package, settings.data_dir / "packages")
    return hub_for(source, settings)
