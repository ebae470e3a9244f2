"""Announce an architecture: a configuration alone becomes a release, and its pre-stage is requested."""

from collections.abc import Sequence
from dataclasses import replace

from dayzero.domain.release import Release, ReleaseStage
from dayzero.errors import BadInputError
from dayzero.ports.catalog import Recorded, WatchBook
from dayzero.ports.hub import Hub
from dayzero.stages.configuration.reading import read_configuration
from dayzero.steps.prestaging import MAX_CONFIG_BYTES, about, config_file


def announce(book: WatchBook, hub: Hub, release: Release, platforms: Sequence[str]) -> Recorded:
    """Record a configuration as an announced release and request its pre-stage; the same one again changes nothing.

    BadInputError: there are weights beside it (that is a release of its own), or it is no configuration.
    """
    if release.weight_files():
        raise BadInputError(
            f"{release.ref} has weights already.", remedy="Adapt it: `dayzero adapt MODEL`, or announce its config.json alone."
        )
    with about(release):
        read_configuration(hub.read_small(release, config_file(release).path, MAX_CONFIG_BYTES))
    return book.record_release(replace(release, stage=ReleaseStage.ANNOUNCED), platforms)
