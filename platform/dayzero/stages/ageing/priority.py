"""Which stale entry is run again first.

    score = (1 + 4·subscribers + log2(1 + asked) + 2·verified + days waited) / (1 + device-hours)

`subscribers` are the subscriptions that would hear of the entry, `asked` how often the model was looked up on the platform in
the last four weeks, `verified` is 1 where people relied on it until now. A day of waiting counts as one point, so that nothing
waits for ever. Device-hours are those of its last run; where nobody measured one they are taken as one hour on each device,
and the terms say so.
"""

import math

from dayzero.domain.ageing import Priority, Worth

SUBSCRIBER = 4.0
WAS_VERIFIED = 2.0
DAY_S = 86_400.0
HOUR_S = 3600.0


def priority(worth: Worth) -> Priority:
    """The place in the queue and its terms; a clock that went back adds nothing and takes nothing away."""
    waited_days = max(worth.waited_s, 0.0) / DAY_S
    asked = math.log2(1 + max(worth.asked, 0))
    for_it = 1.0 + SUBSCRIBER * worth.subscribers + asked + WAS_VERIFIED * worth.verified + waited_days
    known = worth.took_s is not None and worth.took_s >= 0
    hours = (worth.took_s or 0.0) / HOUR_S if known else 1.0
    cost = worth.devices * hours
    terms = (
        f"{worth.subscribers} subscriptions (+{SUBSCRIBER * worth.subscribers:g})",
        f"looked up {worth.asked} times (+{asked:.2f})",
        *((f"was verified (+{WAS_VERIFIED:g})",) if worth.verified else ()),
        f"waits {waited_days:.1f} days (+{waited_days:.2f})",
        f"÷ (1 + {cost:.3g} device-hours{'' if known else ', assumed: no run was timed'})",
    )
    return Priority(for_it / (1.0 + cost), terms)
