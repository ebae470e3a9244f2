"""Bytes done of all, for whoever shows them."""

from dayzero.ports.hub import Progress


class Counter:
    """Counts bytes up to `total`, and says so where somebody listens."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self.total, self._done = progress, total, 0

    def add(self, count: int) -> None:
        """So many more are done."""
        self._done += count
        if self._progress is not None:
            self._progress(self._done, self.total)
