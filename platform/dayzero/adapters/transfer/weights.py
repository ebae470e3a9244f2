"""WeightTransfer: the Transfer port on this host's disk."""

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from dayzero.adapters.transfer.fetching import fetch_release, missing_bytes, needed_files
from dayzero.adapters.transfer.rates import Rates
from dayzero.adapters.transfer.sharding import write_shards
from dayzero.adapters.transfer.sink import CHECKPOINT_BYTES
from dayzero.adapters.transfer.streaming import stream_shards
from dayzero.adapters.transfer.verifying import verify_shards
from dayzero.disk import free_bytes, require_space
from dayzero.domain.release import Release, RepoFile
from dayzero.domain.shards import Integrity, ShardManifest
from dayzero.domain.slices import SlicePlan
from dayzero.domain.tensors import CheckpointIndex
from dayzero.domain.transfers import Room, TransferEstimate
from dayzero.domain.vouching import Witness
from dayzero.ports.hub import Hub, Progress
from dayzero.ports.storing import ReleaseStore
from dayzero.stages.transfer.estimating import gate_notes, source_sizes


class WeightTransfer:
    """Fetches releases, writes their shards, checks them. Errors: see fetch_release, write_shards and verify_shards."""

    def __init__(
        self,
        rates: Path | None = None,
        bytes_per_s: float | None = None,
        connections: int = 8,
        checkpoint_bytes: int = CHECKPOINT_BYTES,
        store: ReleaseStore | None = None,
    ) -> None:
        """`rates`: a file that keeps how fast bytes came from where; `bytes_per_s`: the most that is allowed;
        `checkpoint_bytes`: how many are written between two moments at which they are made durable; `store`: where
        fetched files are held (the hubs that `fetch` is given then are over the same store)."""
        self._rates, self._bytes_per_s, self._connections = Rates(rates), bytes_per_s, connections
        self._checkpoint_bytes, self._store = checkpoint_bytes, store

    def estimate(self, hub: Hub, release: Release, into: Path) -> TransferEstimate:
        """What `fetch` would move."""
        files = needed_files(hub, release)
        missing, free = self._missing(release, files, into), free_bytes(into)
        rate, notes = self.rate_from(release), gate_notes(release)
        return TransferEstimate(str(release.ref), missing, missing, free, len(files), bytes_per_s=rate, notes=notes)

    def rate_from(self, release: Release) -> float | None:
        """Bytes a second that can be expected: what was measured from there, and no more than is allowed."""
        known = [rate for rate in (self._rates.known(_origin(release)), self._bytes_per_s) if rate is not None]
        return min(known, default=None)

    def fetch(self, hub: Hub, release: Release, into: Path, progress: Progress | None) -> Path:
        """The files that adaptation needs, checked by the hub, under `into`; a store keeps them as long as this process lives.

        DependencyError or BlockedError, before the first byte: the disk or the store has no room.
        """
        files = needed_files(hub, release)
        missing = self._missing(release, files, into)
        started_s = time.monotonic()
        with self._store.taking(release, files) if self._store is not None else nullcontext():
            if self._store is not None:
                self._store.hold(release.content_id)
            else:
                require_space(into, missing, f"fetching {release.repo_id}")
            place = fetch_release(hub, release, files, into, progress)
        self._rates.learn(_origin(release), missing, time.monotonic() - started_s)
        return place

    def _missing(self, release: Release, files: Sequence[RepoFile], into: Path) -> int:
        store = self._store
        return missing_bytes(files, into, lambda file: store is not None and store.held(release, file) is not None)

    def shard(
        self,
        model_dir: Path,
        layout: ShardManifest,
        into: Path,
        progress: Progress | None,
        *,
        integrity: Integrity = Integrity.SHA256,
        stated: Mapping[str, str] | None = None,
        beside: Sequence[str] = (),
    ) -> ShardManifest:
        """The layout's rank files under `into`, with digests; written ones that match are kept."""
        return write_shards(
            model_dir, layout, into, progress,
            integrity=integrity, stated=stated, beside=beside, checkpoint_bytes=self._checkpoint_bytes,
        )  # fmt: skip

    def stream(
        self,
        hub: Hub,
        release: Release,
        index: CheckpointIndex,
        layout: ShardManifest,
        into: Path,
        progress: Progress | None,
        *,
        slices: SlicePlan | None = None,
        witness: Witness | None = None,
        integrity: Integrity = Integrity.SHA256,
    ) -> ShardManifest:
        """The layout's rank files under `into`, from what the hub sends, each byte once; see stream_shards."""
        moved = slices.read_bytes if slices else sum(source_sizes(release, layout).values())
        started_s = time.monotonic()
        manifest = stream_shards(
            hub, release, index, layout, into, progress,
            slices=slices, witness=witness, integrity=integrity, connections=self._connections,
            checkpoint_bytes=self._checkpoint_bytes,
        )  # fmt: skip
        self._rates.learn(_origin(release), moved, time.monotonic() - started_s)
        return manifest

    def room(self, release: Release, into: Path) -> Room:
        """Free space where `into` is or will be, and the rate that can be expected from the release's hub."""
        return Room(free_bytes(into), self.rate_from(release))

    def verify(self, shards_dir: Path, progress: Progress | None) -> ShardManifest:
        """The manifest of shards whose bytes have its digests."""
        return verify_shards(shards_dir, progress)


def _origin(release: Release) -> str:
    return release.endpoint or release.hub.value
