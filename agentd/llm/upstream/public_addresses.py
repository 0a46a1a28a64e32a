"""Public hosts: a configured URL must not reach internal hosts (SSRF).

What counts is where a connection goes, so names are checked by the addresses they resolve to, once;
where a proxy resolves them, only what the name itself reveals is refused.
"""

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

IpAddress: TypeAlias = IPv4Address | IPv6Address

_SPECIAL = tuple(
    map(
        IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
            *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16"),
            *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3"),
            "168.63.129.16/32",  # public, but inside Azure it answers with the machine's secrets
        ),
    )
)
"""IANA's registry of IPv4 with its neighbours; Pythons differ about what is global."""
_UNICAST = IPv6Network("2000::/3")
"""The only part of IPv6 that is routed on the internet ..."""
_SPECIAL_UNICAST = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "3fff::/20")))
"""... but for these: tunnels (Teredo), protocols and documentation."""
_NAT64 = IPv6Network("64:ff9b::/96")
_INSIDE = ("localhost", "local", "internal", "home.arpa", "localdomain")
"""The names, and ends of names, that no public host has."""
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")


def is_public(address: IpAddress) -> bool:
    """Return whether it is an ordinary internet host, also for addresses that embed another one.

    Not public: this machine, private and shared (CGNAT) networks, link-local ones with the clouds'
    metadata services, multicast, reserved and documentation ranges.
    """
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL)
    if address.ipv4_mapped:
        return is_public(address.ipv4_mapped)
    if address in _NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
    if address.sixtofour:
        return is_public(address.sixtofour)
    return address in _UNICAST and not any(address in network for network in _SPECIAL_UNICAST)


def parse_literal(host: str) -> IpAddress | None:
    """Parse an IP address written in the usual form; None for anything else."""
    try:
        return ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def may_be_public(host: str) -> bool:
    """Return whether a name or literal, not resolved yet, can mean a public host.

    It cannot if its top-level name is for private use, or if it is an address in an odd spelling
    (``0x7f.1``, ``2130706433``, ``127.1``, ``127.0.0.1.``), which every parser reads differently.
    """
    if address := parse_literal(host):
        return is_public(address)
    name = host.lower().removesuffix(".")
    last = name.rpartition(".")[2]
    inside = any(name == end or name.endswith(f".{end}") for end in _INSIDE)
    return bool(name) and not inside and not _NUMBER.fullmatch(last)
