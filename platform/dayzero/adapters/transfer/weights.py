"""WeightTransfer: the Transfer port on this host's disk."""

from pathlib import Path

from dayzero.adapters.transfer.fetching import fetch_release
from dayzero.adapters.transfer.sharding import write_shards
from dayzero.domain.release import Release
from dayzero.domain.shards import ShardManifest
from dayzero.ports.hub import Hub, Progress


class WeightTransfer:
    """Fetches releases and writes their shards. Errors: see fetch_release and write_shards."""

    def fetch(self, hub: Hub, release: Release, into: Path, progress: Progress | None) -> Path:
        """The files that adaptation needs, checked by the hub, under `into`."""
        return fetch_release(hub, release, into, progress)

    def shard(self, model_dir: Path, layout: ShardManifest, into: Path, progress: Progress | None) -> ShardManifest:
        """The layout's rank files under `into`, with digests; written ones that match are kept."""
        return write_shards(model_dir, layout, into, progress)
