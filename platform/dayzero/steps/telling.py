"""Telling subscribers: at least once, each repeat under the same id, later and later, and at last not any more."""

import hashlib
from dataclasses import dataclass

from dayzero.domain.subscriptions import Delivery
from dayzero.errors import BadInputError, DayzeroError
from dayzero.ports.catalog import Outbox
from dayzero.ports.running import Clock
from dayzero.ports.telling import Notifier


@dataclass(frozen=True, slots=True)
class Persistence:
    """How long a subscriber that does not take a delivery is tried: the defaults last about a day.

    The wait after try n (from 0) is `first_wait_s · factor^n`, at most `longest_wait_s`, less up to a quarter of jitter.
    """

    max_tries: int = 12
    first_wait_s: float = 5.0
    factor: float = 3.0
    longest_wait_s: float = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """One round: delivery ids that were taken, that will be tried again, and that never will be, with what went wrong."""

    delivered: tuple[str, ...]
    postponed: tuple[str, ...]
    dead: tuple[str, ...]
    problems: tuple[str, ...] = ()


DEFAULT_PERSISTENCE = Persistence()


def wait_s(delivery_id: str, tries: int, persistence: Persistence = DEFAULT_PERSISTENCE) -> float:
    """Seconds to wait after that many earlier tries; the same for the same delivery and count, different across deliveries."""
    power = min(tries, 64)  # factor^64 is past every longest wait and still a finite double
    full = min(persistence.first_wait_s * persistence.factor**power, persistence.longest_wait_s)
    draw = hashlib.sha256(f"{delivery_id}:{tries}".encode()).digest()[:4]
    return full * (1 - 0.25 * int.from_bytes(draw) / 2**32)


def deliver_due(
    outbox: Outbox,
    notifier: Notifier,
    clock: Clock,
    *,
    limit: int = 50,
    lease_s: float = 60.0,
    round_s: float = 60.0,
    persistence: Persistence = DEFAULT_PERSISTENCE,
) -> DeliveryReport:
    """Deliver what is due, one leased delivery after the other, until nothing is due, `limit` were tried or `round_s` passed.

    Killed at any line, it loses nothing: the lease runs out and the delivery is tried again under the same message id.
    """
    delivered: list[str] = []
    postponed: list[str] = []
    dead: list[str] = []
    problems: list[str] = []
    ends_s = clock.monotonic_s() + round_s
    for _ in range(limit):
        if clock.monotonic_s() > ends_s:
            break
        # One lease at a time: a slow subscriber must not let the leases of those behind it run out.
        due = outbox.claim_due(1, lease_s)
        if not due:
            break
        delivery, event, subscription = due[0]
        try:
            notifier.deliver(subscription, event, delivery)
        except DayzeroError as error:
            again_in_s = _again_in_s(delivery, error, persistence)
            outbox.undelivered(delivery.id, str(error), again_in_s)
            (dead if again_in_s is None else postponed).append(delivery.id)
            problems.append(f"{event.kind.value} {event.id} to subscription {subscription.id}: {error}")
        else:
            outbox.delivered(delivery.id)
            delivered.append(delivery.id)
    return DeliveryReport(tuple(delivered), tuple(postponed), tuple(dead), tuple(problems))


def _again_in_s(delivery: Delivery, error: DayzeroError, persistence: Persistence) -> float | None:
    """When to try again, or None for never: refused for good, or tried often enough. `delivery.tries` counts this try."""
    if isinstance(error, BadInputError) or delivery.tries >= persistence.max_tries:
        return None
    asked_s = min(error.retry_after_s or 0.0, persistence.longest_wait_s)
    return max(asked_s, wait_s(delivery.id, delivery.tries - 1, persistence))
