"""Rounds that repeat in threads until they are told to stop; a round that fails is told and tried again."""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dayzero.errors import DayzeroError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Loop:
    """What to do, and the time between two rounds."""

    name: str
    every_s: float
    round: Callable[[], object]


class Loops:
    """Runs loops, each in its own thread."""

    def __init__(self, loops: Sequence[Loop]) -> None:
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(loop,), name=loop.name, daemon=True) for loop in loops]

    def start(self) -> None:
        """Begin, the first rounds at once."""
        for thread in self._threads:
            thread.start()

    def stop(self, wait_s: float = 10.0) -> None:
        """Ask all to stop and wait for rounds under way."""
        self._stop.set()
        for thread in self._threads:
            thread.join(wait_s)

    def _run(self, loop: Loop) -> None:
        told = ""
        while not self._stop.is_set():
            try:
                loop.round()
                told = ""
            except DayzeroError as error:
                if str(error) != told:
                    logger.warning("%s: %s", loop.name, error)
                told = str(error)
            except Exception:
                logger.exception("%s failed; it goes on with its next round", loop.name)
            self._stop.wait(loop.every_s)
