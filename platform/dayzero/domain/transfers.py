"""Moving weights: what it would cost, known before it begins."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Room:
    """What a place has for a transfer: free bytes (None: not known) and bytes a second from the hub (None: never measured)."""

    free_bytes: int | None
    bytes_per_s: float | None


@dataclass(frozen=True, slots=True)
class TransferEstimate:
    """What moving one release's weights takes.

    `download_bytes` come over the network (or from another disk), `discarded_bytes` of them for nothing (slices that are read
    over); `disk_bytes` are written, where `free_bytes` are free (None: not known). `bytes_per_s` is the rate that was measured
    from there before, or the limit in the settings (None: neither is known). `notes` are for whoever approves.
    """

    subject: str
    download_bytes: int
    disk_bytes: int
    free_bytes: int | None = None
    requests: int = 0
    discarded_bytes: int = 0
    bytes_per_s: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def duration_s(self) -> float | None:
        """How long the download takes at that rate; None when no rate is known."""
        return self.download_bytes / self.bytes_per_s if self.bytes_per_s else None
