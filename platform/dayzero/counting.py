"""Progress of one piece of work, told as it grows."""

import threading

from dayzero.ports.hub import Progress


class Counter:
    """Tells bytes done of `total`, never going back; threads may share it."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.total = total
        self._progress, self._done = progress, 0
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        """So many more bytes are there."""
        with self._lock:
            self._done = min(self._done + count, self.total)
            if self._progress is not None and count:
                self._progress(self._done, self.total)

    def finish(self) -> None:
        """All of them are."""
        self.add(self.total - self._done)


def part_of(progress: Progress | None, before: int, total: int) -> Progress | None:
    """The progress of one part of a work of `total` bytes, of which so many were done before it."""
    return None if progress is None else lambda done, _: progress(before + done, total)
