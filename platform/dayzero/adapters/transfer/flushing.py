"""Flushing: what is written becomes durable in a thread beside the writing, and then the journal says so."""

import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from dayzero.adapters.transfer.journal import Journal, Line
from dayzero.adapters.transfer.output import OutputFolder
from dayzero.adapters.transfer.writeback import begin_writing

_AT_ONCE = 8


class Flusher:
    """One flush at a time: who asks for the next waits for the last, so two checkpoints at most are in flight."""

    def __init__(self, folder: OutputFolder, journal: Journal, descriptors: Mapping[int, int]) -> None:
        self._folder, self._journal, self._descriptors = folder, journal, descriptors
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="dayzero-flush")
        self._flushing: Future[None] | None = None
        self._beginner = ThreadPoolExecutor(1, thread_name_prefix="dayzero-begin")
        self._beginning: Future[None] | None = None

    def begin(self) -> None:
        """Have the disk begin with what was written, beside the writing; nothing happens while it is still asked to."""
        if self._beginning is None or self._beginning.done():
            self._beginning = self._beginner.submit(begin_writing, list(self._descriptors.values()))

    def flush(self, lines: list[Line]) -> None:
        """Make all that was written until now durable, then write down the lines; DependencyError of the flush before."""
        with self._lock:
            self._wait()
            self._flushing = self._thread.submit(self._flush, lines)

    def say(self, lines: list[Line]) -> None:
        """Write down lines that need no flush, after those of the last one."""
        with self._lock:
            self._wait()
            self._journal.add(lines)

    def wait(self) -> None:
        """Until the last flush is done; DependencyError when it failed."""
        with self._lock:
            self._wait()

    def close(self) -> None:
        """End the threads; what they are at is finished first."""
        self._beginner.shutdown(wait=True)
        self._thread.shutdown(wait=True)

    def _wait(self) -> None:
        if self._flushing is not None:
            flushing, self._flushing = self._flushing, None
            flushing.result()

    def _flush(self, lines: list[Line]) -> None:
        try:
            # Asked for together, the disk answers them together.
            with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="dayzero-sync") as threads:
                for _ in threads.map(os.fdatasync, list(self._descriptors.values())):
                    pass
        except OSError as error:
            raise self._folder.refusal("the shards", error) from error
        self._journal.add(lines)
