"""The host's clock."""

import time
from datetime import UTC, datetime


class SystemClock:
    """Time as the host tells it."""

    def now(self) -> datetime:
        """The present, in UTC."""
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()
