"""The client behind a proxy: ``X-Forwarded-For`` and ``X-Forwarded-Proto`` of trusted proxies.

Anybody can send these headers, so they count only on connections from an address in the setting
``trusted_proxies``. Each proxy appends the address that it received the request from: the
right-most address that is not a trusted proxy is the client's, and those before it could have been
made up by the client.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TypeAlias

from tornado.httputil import HTTPHeaders

_Address: TypeAlias = IPv4Address | IPv6Address


class TrustedProxies:
    """The trusted proxies in front of this daemon."""

    def __init__(self, addresses: Iterable[str] = ()) -> None:
        self.trust(addresses)

    def trust(self, addresses: Iterable[str]) -> None:
        """Trust these addresses and networks instead of those before."""
        self._networks = tuple(ip_network(one, strict=False) for one in addresses)

    def find_client(self, peer: str, headers: HTTPHeaders) -> str:
        """Return the address of the client of a request over a connection from ``peer``."""
        if not self._networks or "X-Forwarded-For" not in headers:
            return peer
        found = _parse_address(peer)
        for hop in reversed(headers["X-Forwarded-For"].split(",")):
            if found is None or not self._trusts(found):
                break
            before = _parse_address(hop.strip())
            if before is None:  # such as "unknown": the last proxy is all that is known
                break
            found = before
        return peer if found is None else str(found)

    def is_https(self, peer: str, headers: HTTPHeaders) -> bool:
        """Return whether a trusted proxy says that the client uses https."""
        if not self._networks or "X-Forwarded-Proto" not in headers:
            return False
        address = _parse_address(peer)
        protocol = headers["X-Forwarded-Proto"].rpartition(",")[2].strip().lower()
        return address is not None and self._trusts(address) and protocol == "https"

    def _trusts(self, address: _Address) -> bool:
        return any(address in one for one in self._networks)


def _parse_address(text: str) -> _Address | None:
    """Parse an address as proxies write it: bare, with a port, or in brackets; None if invalid."""
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
