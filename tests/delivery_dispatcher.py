"""A dispatcher as the control plane runs it, impatient: `python delivery_dispatcher.py URL KEY LANES`."""

import sys
import threading
import time
from pathlib import Path

from dayzero.adapters.host.clock import SystemClock
from dayzero.adapters.notify.choose import ChosenNotifier
from dayzero.adapters.notify.networks import parse_networks
from dayzero.adapters.store.connection import open_engine
from dayzero.adapters.store.outbox import SqlOutbox
from dayzero.adapters.vault.fernet import FernetVault
from dayzero.errors import DayzeroError
from dayzero.steps.telling import Persistence, serve_lane

IMPATIENT = Persistence(max_tries=8, first_wait_s=0.25, factor=2.0, longest_wait_s=4.0)
LEASE_S = 15.0
ROUND_S = 5.0
TIMEOUT_S = 2.0


def main(url: str, key: Path, lanes: int) -> None:
    clock = SystemClock()
    notifier = ChosenNotifier(parse_networks(["127.0.0.0/8"]), timeout_s=TIMEOUT_S)
    outbox = SqlOutbox(_engine(url), clock, FernetVault(key))

    def tell() -> None:
        served = serve_lane(
            outbox, notifier, clock, lease_s=LEASE_S, round_s=ROUND_S, limit=200, persistence=IMPATIENT
        )  # fmt: skip
        if served is None:
            time.sleep(0.1)

    def fan_out() -> None:
        if outbox.fan_out(500) == 0:
            time.sleep(0.1)

    def again_and_again(what) -> None:
        while True:
            try:
                what()
            except DayzeroError:
                time.sleep(0.2)

    for what in (fan_out, *[tell] * lanes):
        threading.Thread(target=again_and_again, args=(what,), daemon=True).start()
    threading.Event().wait()


def _engine(url: str):
    while True:
        try:
            return open_engine(url)
        except DayzeroError:
            time.sleep(0.2)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
