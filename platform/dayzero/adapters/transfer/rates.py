"""How fast bytes came from where: kept, so that the next estimate has a time in it."""

import json
from contextlib import suppress
from pathlib import Path

from dayzero.disk import write_whole
from dayzero.errors import DependencyError

_LEAST_BYTES = 16 << 20
_MOST_ENDPOINTS = 200


class Rates:
    """Bytes a second by endpoint, in a small file. A lost or broken one costs nothing but the knowledge."""

    def __init__(self, kept_in: Path | None) -> None:
        self._kept_in = kept_in

    def known(self, endpoint: str) -> float | None:
        """The rate of the last transfer from there; None when there was none."""
        return self._read().get(endpoint)

    def learn(self, endpoint: str, moved_bytes: int, took_s: float) -> None:
        """Remember a transfer that was large enough to tell something."""
        if self._kept_in is None or moved_bytes < _LEAST_BYTES or took_s <= 0:
            return
        rates = self._read()
        rates.pop(endpoint, None)
        rates[endpoint] = moved_bytes / took_s
        kept = dict(list(rates.items())[-_MOST_ENDPOINTS:])
        with suppress(DependencyError):
            write_whole(self._kept_in, json.dumps(kept).encode())

    def _read(self) -> dict[str, float]:
        if self._kept_in is None:
            return {}
        try:
            rows = json.loads(self._kept_in.read_bytes())
            return {str(name): float(rate) for name, rate in rows.items() if float(rate) > 0}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}
