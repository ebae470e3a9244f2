"""Quiet hours: read from words, and over midnight and changes of the clock."""

from datetime import UTC, datetime

import pytest

from dayzero.adapters.notify.networks import Networks, parse_networks
from dayzero.domain.subscriptions import Quiet
from dayzero.errors import BadInputError
from dayzero.stages.telling.quiet import quiet_until, read_quiet


@pytest.mark.parametrize(
    ("now", "until"),
    [
        ("2026-01-10T20:59", None),
        ("2026-01-10T21:00", "2026-01-11T06:00"),
        ("2026-01-11T05:59", "2026-01-11T06:00"),
        ("2026-01-11T06:00", None),
        ("2026-03-28T23:00", "2026-03-29T05:00"),  # the clock goes forward in this night
        ("2026-10-24T21:00", "2026-10-25T06:00"),  # and back in this one
    ],
)
def test_over_midnight_in_a_time_zone(now: str, until: str | None) -> None:
    quiet = read_quiet("22:00-07:00 Europe/Berlin")
    moment = datetime.fromisoformat(now).replace(tzinfo=UTC)
    assert quiet_until(quiet, moment) == (None if until is None else datetime.fromisoformat(until).replace(tzinfo=UTC))


def test_by_day() -> None:
    quiet = Quiet("08:00", "13:00", "UTC")
    assert quiet_until(quiet, datetime(2026, 1, 1, 12, tzinfo=UTC)) == datetime(2026, 1, 1, 13, tzinfo=UTC)
    assert quiet_until(quiet, datetime(2026, 1, 1, 13, tzinfo=UTC)) is None


@pytest.mark.parametrize("text", ["", "22-7", "24:00-07:00", "22:00-22:00", "22:00-07:00 Europe/Nowhere", "22:00-07:00 ../etc"])
def test_what_are_no_quiet_hours(text: str) -> None:
    with pytest.raises(BadInputError):
        read_quiet(text)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.1.2.3", "0.0.0.0",
        "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "224.0.0.1",
        "255.255.255.255", "198.18.0.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fd00::1", "fc00::1", "ff02::1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "2002:7f00:1::",
        "not an address", "",
    ],
)  # fmt: skip
def test_addresses_inside_are_not_permitted(address: str) -> None:
    assert not Networks().permits(address)


@pytest.mark.parametrize("address", ["93.184.215.14", "1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1"])
def test_public_addresses_are(address: str) -> None:
    assert Networks().permits(address)


def test_a_network_may_be_allowed() -> None:
    networks = parse_networks(["10.1.0.0/16", "::1/128"])
    assert networks.permits("10.1.2.3") and networks.permits("::ffff:10.1.2.3") and networks.permits("::1")
    assert not networks.permits("10.2.0.1") and not networks.permits("127.0.0.1")
    with pytest.raises(BadInputError, match="no network"):
        parse_networks(["10.1.0.1/16"])
