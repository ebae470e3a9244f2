"""Whether a transfer may begin by itself, and what is said of it before it does."""

from collections.abc import Mapping

from dayzero.domain.release import Release
from dayzero.domain.shards import ShardManifest
from dayzero.domain.transfers import TransferEstimate


def source_sizes(release: Release, layout: ShardManifest) -> Mapping[str, int]:
    """The sizes of the release's files that a layout takes bytes of."""
    needed = set(layout.source_files)
    return {file.path: file.size_bytes for file in release.files if file.path in needed}


def needs_approval(estimate: TransferEstimate, approve_below_bytes: int) -> bool:
    """Whether somebody has to approve: as many bytes as the limit or more come over the network."""
    return estimate.download_bytes >= approve_below_bytes


def estimate_sentence(estimate: TransferEstimate) -> str:
    """Bytes, time and disk in one sentence; what is not known is said to be unknown."""
    download = f"{estimate.subject}: {shown_bytes(estimate.download_bytes)} to download"
    if estimate.discarded_bytes:
        download += f" ({shown_bytes(estimate.discarded_bytes)} of them read over)"
    if estimate.requests:
        download += f" in {estimate.requests:,} requests"
    seconds = estimate.duration_s
    took = "time unknown (nothing was measured from there yet)" if seconds is None else f"about {shown_duration(seconds)}"
    free = "" if estimate.free_bytes is None else f", {shown_bytes(estimate.free_bytes)} free"
    return f"{download}, {took}, {shown_bytes(estimate.disk_bytes)} on the disk{free}."


def gate_notes(release: Release) -> tuple[str, ...]:
    """Where the licence of a gated repository is accepted; () for an open one."""
    if not release.gated:
        return ()
    return (f"{release.repo_id} is gated; its licence is on {release.endpoint}/{release.repo_id}.",)


def shown_duration(seconds: float) -> str:
    """A duration for people, to two units."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def shown_bytes(count: float) -> str:
    """A number of bytes for people (decimal units)."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
