"""What a node asks a hub for: byte ranges of the files of a checkpoint."""

from dataclasses import dataclass

GIB = 1 << 30
Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class SliceLimits:
    """When a gap is read over instead of asked around.

    Gaps up to `near_bytes` are read while all of them together stay below `overread_share` of what is needed. Where that leaves
    more than `requests_per_gib` of what is read (and more than `least_requests`, for small models), the smallest gaps that are
    left are read too, so that a strided tensor becomes one stream of which most is discarded. No range is longer than
    `part_bytes`.
    """

    near_bytes: int = 4 << 20
    overread_share: float = 0.01
    requests_per_gib: int = 256
    least_requests: int = 64
    part_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True)
class FileSlices:
    """The ranges [begin, end) of one source file, rising and apart, each asked for by one request."""

    file: str
    ranges: tuple[Range, ...]
    needed_bytes: int

    @property
    def read_bytes(self) -> int:
        """Bytes that are asked for."""
        return sum(end - begin for begin, end in self.ranges)


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """What the ranks of a node need together, each byte once. `streamed_tensors`: read whole, though only slices are needed."""

    ranks: tuple[int, ...]
    files: tuple[FileSlices, ...]
    shard_bytes: int
    streamed_tensors: int

    @property
    def needed_bytes(self) -> int:
        """Bytes of the checkpoint that some rank of the node holds."""
        return sum(one.needed_bytes for one in self.files)

    @property
    def read_bytes(self) -> int:
        """Bytes that are asked for."""
        return sum(one.read_bytes for one in self.files)

    @property
    def overread_bytes(self) -> int:
        """Bytes that are asked for and discarded."""
        return self.read_bytes - self.needed_bytes

    @property
    def requests(self) -> int:
        """How many ranges are asked for."""
        return sum(len(one.ranges) for one in self.files)

    @property
    def requests_per_gib(self) -> float:
        """Requests for each GiB that is asked for."""
        return self.requests * GIB / self.read_bytes if self.read_bytes else 0.0
