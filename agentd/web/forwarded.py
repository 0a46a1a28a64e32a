"""Who is behind a proxy: what ``X-Forwarded-For`` and ``X-Forwarded-Proto`` are believed.

Anybody can send these headers, so they count only where the connection comes from an address that
the setting ``trusted_proxies`` names. Each proxy adds whom it heard from at the end of the list:
the right-most address that is no trusted proxy is the client's, and what stands before it is only
the client's word.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TypeAlias

from tornado.httputil import HTTPHeaders

_Address: TypeAlias = IPv4Address | IPv6Address


class TrustedProxies:
    """The proxies in front of this daemon; there are none at first."""

    def __init__(self, addresses: Iterable[str] = ()) -> None:
        self.trust(addresses)

    def trust(self, addresses: Iterable[str]) -> None:
        """Believe these addresses and networks, and no others, from now on."""
        self._networks = tuple(ip_network(one, strict=False) for one in addresses)

    def find_client(self, peer: str, headers: HTTPHeaders) -> str:
        """Return the address of who sent a request over a connection from ``peer``."""
        if not self._networks or "X-Forwarded-For" not in headers:
            return peer
        found = _parse_address(peer)
        for hop in reversed(headers["X-Forwarded-For"].split(",")):
            if found is None or not self._trusts(found):
                break
            before = _parse_address(hop.strip())
            if before is None:  # such as "unknown": whoever is behind it, it came through this one
                break
            found = before
        return peer if found is None else str(found)

    def is_https(self, peer: str, headers: HTTPHeaders) -> bool:
        """Whether a trusted proxy says that the client came by https."""
        if not self._networks or "X-Forwarded-Proto" not in headers:
            return False
        address = _parse_address(peer)
        told = headers["X-Forwarded-Proto"].rpartition(",")[2].strip().lower()
        return address is not None and self._trusts(address) and told == "https"

    def _trusts(self, address: _Address) -> bool:
        return any(address in one for one in self._networks)


def _parse_address(text: str) -> _Address | None:
    """An address as proxies write it: bare, with a port, in brackets; ``None`` for none."""
    text = text.strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
