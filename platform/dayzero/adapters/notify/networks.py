"""Which addresses subscribers may have: public ones, and those inside networks that the operator allows."""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from dayzero.errors import BadInputError

Address = IPv4Address | IPv6Address
_NAT64 = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
_IPV4_COMPATIBLE = IPv6Network("::/96")


class RefusedAddressError(OSError):
    """A connection that must not be made."""


@dataclass(frozen=True, slots=True)
class Networks:
    """The networks that are allowed beside the public addresses."""

    allowed: tuple[IPv4Network | IPv6Network, ...] = ()

    def permits(self, address: str) -> bool:
        """Whether a message may go to this address. What an IPv6 address carries of IPv4 counts as that."""
        try:
            parsed: Address = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        return any(_inside(one, self.allowed) for one in _meanings(parsed)) or all(_is_public(one) for one in _meanings(parsed))

    def refusal(self, host: str, addresses: Iterable[str]) -> str:
        """The sentence for a host none of whose addresses is permitted."""
        found = ", ".join(sorted(set(addresses))) or "no address"
        return f"{host} is at {found}: loopback, link-local and private addresses are told nothing"


REMEDY = "Subscribe a public address, or allow its network in DAYZERO_SUBSCRIBER_NETWORKS."


def parse_networks(texts: Iterable[str]) -> Networks:
    """The networks of the settings; BadInputError for one that is none."""
    allowed = []
    for text in texts:
        try:
            allowed.append(ip_network(text.strip()))
        except ValueError as error:
            raise BadInputError(f"{text!r} is no network.", remedy="Write networks as 10.1.0.0/16 or fd00::/8.") from error
    return Networks(tuple(allowed))


def _meanings(address: Address) -> tuple[Address, ...]:
    """The address, and the IPv4 address that it stands for."""
    if isinstance(address, IPv4Address):
        return (address,)
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    inner: list[Address] = []
    if address.sixtofour is not None:
        inner.append(address.sixtofour)
    if address.teredo is not None:
        inner += address.teredo
    if any(address in network for network in _NAT64) or (address in _IPV4_COMPATIBLE and int(address) > 1):
        inner.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return (address, *inner)


def _is_public(address: Address) -> bool:
    return address.is_global and not address.is_multicast and not address.is_reserved and not address.is_unspecified


def _inside(address: Address, networks: tuple[IPv4Network | IPv6Network, ...]) -> bool:
    return any(address.version == network.version and address in network for network in networks)
